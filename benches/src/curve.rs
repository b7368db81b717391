//! Recall against speed.

/// One setting of a contestant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mark {
    /// The share of the exact best that was found.
    pub recall: f64,
    /// Queries a second.
    pub speed: f64,
}

/// The settings of a contestant that no other of its settings beats in both, by falling recall.
#[derive(Debug, Clone, Default)]
pub struct Curve(Vec<Mark>);

impl Curve {
    /// The curve of some settings.
    pub fn new(mut marks: Vec<Mark>) -> Curve {
        marks.sort_unstable_by(|a, b| b.recall.total_cmp(&a.recall).then(b.speed.total_cmp(&a.speed)));
        let mut fastest = 0.0;
        marks.retain(|mark| {
            let kept = mark.speed > fastest;
            fastest = mark.speed.max(fastest);
            kept
        });
        Curve(marks)
    }

    /// The speed at a recall: between the two settings around it, the logarithm of the speed is taken to be
    /// linear in the recall. A curve that is whole above the recall has the speed of its fastest setting;
    /// `None` if none reaches it.
    pub fn speed_at(&self, recall: f64) -> Option<f64> {
        let below = self.0.partition_point(|mark| mark.recall >= recall);
        let above = self.0[..below].last()?;
        let Some(below) = self.0.get(below) else { return Some(above.speed) };
        let part = (above.recall - recall) / (above.recall - below.recall);
        Some((above.speed.ln() * (1.0 - part) + below.speed.ln() * part).exp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(marks: &[(f64, f64)]) -> Curve {
        Curve::new(marks.iter().map(|&(recall, speed)| Mark { recall, speed }).collect())
    }

    #[test]
    fn a_speed_lies_between_those_of_the_settings_around_it() {
        // The setting of recall 0.94 is slower and worse than that of 0.95.
        let curve = curve(&[(0.9, 1000.0), (0.94, 90.0), (0.95, 100.0), (1.0, 10.0)]);
        for (recall, wanted) in
            [(1.0, 10.0), (0.975, 1000.0_f64.sqrt()), (0.95, 100.0), (0.925, 1e5_f64.sqrt()), (0.5, 1000.0)]
        {
            let found = curve.speed_at(recall).expect("reached");
            assert!((found / wanted - 1.0).abs() < 1e-9, "{recall}: {found}");
        }
    }

    #[test]
    fn a_recall_that_no_setting_reaches_has_no_speed() {
        assert_eq!(curve(&[(0.9, 1000.0)]).speed_at(0.91), None);
        assert_eq!(curve(&[]).speed_at(0.0), None);
    }
}
