//! When rows are frozen, and which together: a function of counts.
//!
//! Segments lie in the order of rows. A new one takes in the segments beside it that are not much larger,
//! as in an LSM tree with tiers (O'Neil, Cheng, Gawlick & O'Neil, 1996), so that each is more than
//! [`TIER`] times as large as the next and a row is frozen anew about as often as there are tiers.

use std::ops::Range;

/// Points outside all segments are frozen when they are more than this part of those inside …
const DELTA_PART: usize = 10;
/// … and more than this many, whose scan adds a fifth to a walk in the bench `freeze` …
const DELTA_MIN: usize = 1024;
/// … and in any case when they are more than this many, whose scan takes nearly as long as a walk there.
const DELTA_MAX: usize = 4096;
/// A segment is frozen anew when more than one in so many of its rows are of deleted points.
const DEAD_PART: usize = 5;
/// The same as a share.
pub const SEGMENT_DEAD_SHARE_MAX: f32 = 1.0 / DEAD_PART as f32;
/// A segment is taken in by a new one beside it that has at least this part of its points …
const TIER: usize = 3;
/// … or if both have no more points than this, which are frozen in a few seconds.
const SMALL: usize = 20_000;
/// With more segments than this the two smallest neighbours become one.
const SEGMENTS_MAX: usize = 8;

/// Consecutive rows: those of a segment, or of no segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) rows: Range<u32>,
    /// Rows that hold points.
    pub(crate) live: usize,
    /// What is known of the segment over these rows.
    pub(crate) frozen: Option<FrozenRun>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrozenRun {
    /// Rows in the segment whose points are deleted.
    pub(crate) dead: usize,
    /// Whether it keeps vectors in the way that is asked for.
    pub(crate) is_as_asked: bool,
}

impl FrozenRun {
    fn is_mostly_alive(self, live: usize) -> bool {
        self.dead * DEAD_PART <= self.dead + live
    }
}

/// The rows that are to become one segment next, all of some runs; `None` when all is as it should be.
/// `runs` follow each other without a gap. Freezing what this gives until it gives nothing comes to an end.
pub(crate) fn due(runs: &[Run]) -> Option<Range<u32>> {
    let first = delta_due(runs).or_else(|| worn(runs)).map(|place| place..place + 1);
    let place = first.or_else(|| crowded(runs))?;
    let taken = grown(runs, place);
    Some(runs[taken.start].rows.start..runs[taken.end - 1].rows.end)
}

/// The largest run outside all segments, if too many points are.
fn delta_due(runs: &[Run]) -> Option<usize> {
    let outside = || runs.iter().enumerate().filter(|(_, run)| run.frozen.is_none());
    let delta: usize = outside().map(|(_, run)| run.live).sum();
    let inside = runs.iter().map(|run| run.live).sum::<usize>() - delta;
    let has_segment = runs.iter().any(|run| run.frozen.is_some());
    let enough = (inside / DELTA_PART).clamp(DELTA_MIN, DELTA_MAX);
    let is_due = if has_segment { delta > enough } else { delta > 0 };
    outside().filter(|_| is_due).max_by_key(|(_, run)| run.live).map(|(place, _)| place)
}

/// A segment with too many deleted points, or one that does not keep vectors as is asked for.
fn worn(runs: &[Run]) -> Option<usize> {
    let is_worn =
        |run: &Run| run.frozen.is_some_and(|frozen| !frozen.is_as_asked || !frozen.is_mostly_alive(run.live));
    runs.iter().position(is_worn)
}

/// The neighbouring segments with the fewest points, if there are too many segments.
fn crowded(runs: &[Run]) -> Option<Range<usize>> {
    let places: Vec<usize> = (0..runs.len()).filter(|&place| runs[place].frozen.is_some()).collect();
    let pairs = places.windows(2).filter(|_| places.len() > SEGMENTS_MAX).map(|two| two[0]..two[1] + 1);
    pairs.min_by_key(|pair| points(&runs[pair.clone()]))
}

fn points(runs: &[Run]) -> usize {
    runs.iter().map(|run| run.live).sum()
}

/// The same with what lies beside it: points outside segments, and segments that are not much larger.
fn grown(runs: &[Run], mut taken: Range<usize>) -> Range<usize> {
    let is_taken = |beside: &Run, taken: &Range<usize>| {
        let own = points(&runs[taken.clone()]);
        let is_near = beside.live <= TIER * own || beside.live + own <= SMALL;
        beside.frozen.is_none() || is_near
    };
    loop {
        let before = taken.start.checked_sub(1).filter(|&place| is_taken(&runs[place], &taken));
        let after = Some(taken.end).filter(|&place| place < runs.len() && is_taken(&runs[place], &taken));
        match (before, after) {
            (Some(place), _) => taken.start = place,
            (None, Some(_)) => taken.end += 1,
            (None, None) => return taken,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs as text: `d` and a count are points outside segments; `s` and a count a segment, with deleted
    /// points after a `-` and a `!` if it keeps vectors otherwise than asked.
    fn runs(text: &str) -> Vec<Run> {
        let mut next = 0;
        let run = |word: &str| {
            let (kind, counts) = word.split_at(1);
            let counts = counts.trim_end_matches('!');
            let (live, dead) = counts.split_once('-').unwrap_or((counts, "0"));
            let [live, dead] = [live, dead].map(|count| count.parse::<u32>().expect("a count"));
            let start = next;
            next += live + dead;
            let dead = dead as usize;
            let frozen = FrozenRun { dead, is_as_asked: !word.ends_with('!') };
            Run { rows: start..next, live: live as usize, frozen: (kind == "s").then_some(frozen) }
        };
        text.split_whitespace().map(run).collect()
    }

    #[test]
    fn what_is_frozen_next_follows_from_the_counts() {
        for (text, wanted) in [
            ("", None),
            ("d0", None),
            ("d1", Some(0..1)),
            ("s1 d1024", None),
            ("s1 d1025", Some(0..1026)),
            // A tenth of what is inside may be outside, but never more than 4,096.
            ("s30000 d3000", None),
            ("s30000 d3001", Some(30000..33001)),
            ("s100000 d4096", None),
            ("s100000 d4097", Some(100000..104097)),
            // Segments that are not much larger are taken in, one after the other.
            ("s100000 s4200 d4097", Some(100000..108297)),
            ("s12000 d4097", Some(0..16097)),
            ("s100000 s30000 s12000 d4097", Some(0..146097)),
            ("s1000000 s100000 s30000 d4097", Some(1130000..1134097)),
            ("s1000000 s60000 s15000 d4097", Some(1060000..1079097)),
            ("s1000000 s58000 s15000 d4500", Some(1000000..1077500)),
            ("s15904 d4096", Some(0..20000)),
            // Rows between two segments, whose file was lost.
            ("s100000 d5000 s100000", Some(100000..105000)),
            ("s100000 d4000 s100000 d97", Some(100000..104000)),
            ("s100000 d4000 s100000 d90", None),
            ("s100000 d4000 s6000 d97", Some(100000..110097)),
            // Deleted points.
            ("s80-20", None),
            ("s79-21", Some(0..100)),
            ("s100000 s30000-8000 d9", Some(100000..138009)),
            ("s0-5000 s100000 d9", Some(0..5000)),
            ("s100000-30000 s100000", Some(0..230000)),
            ("s500000 s100000-30000", Some(500000..630000)),
            // Vectors kept otherwise.
            ("s9000000 s1000000!", Some(9000000..10000000)),
            ("s9000000! s1000000", Some(0..10000000)),
            // Too many segments.
            ("s9000000 s800000 s200000 s60000 s19000 s6000 s800000 s200000", None),
            ("s9000000 s800000 s200000 s60000 s19999 s6000 s800000 s200000 s60000", Some(9000000..11145999)),
        ] {
            assert_eq!(due(&runs(text)), wanted, "{text}");
        }
    }

    /// Freezes what is due until nothing is; gives the runs then, and how many points were frozen.
    fn settled(mut runs: Vec<Run>) -> (Vec<Run>, usize) {
        let mut frozen = 0;
        while let Some(rows) = due(&runs) {
            let is_in = |run: &Run| rows.start <= run.rows.start && run.rows.end <= rows.end;
            let live = runs.iter().filter(|run| is_in(run)).map(|run| run.live).sum();
            let place = runs.iter().position(is_in).expect("a run of these rows");
            runs.retain(|run| !is_in(run));
            let new = FrozenRun { dead: 0, is_as_asked: true };
            runs.insert(place, Run { rows, live, frozen: Some(new) });
            frozen += live;
        }
        (runs, frozen)
    }

    #[test]
    fn segments_stay_few_and_a_point_is_frozen_a_few_times_however_points_come_and_go() {
        for (batch, deleted_of_32) in [(700, 0), (5000, 0), (5000, 3), (40_000, 1)] {
            let (mut runs, mut next, mut work, mut most) = (Vec::<Run>::new(), 0, 0, 0);
            let mut state = 7_u32;
            for _ in 0..(2_000_000 / batch) {
                let rows = next..next + batch;
                next += batch;
                match runs.last_mut().filter(|run| run.frozen.is_none()) {
                    Some(last) => (last.rows.end, last.live) = (next, last.live + batch as usize),
                    None => runs.push(Run { rows, live: batch as usize, frozen: None }),
                }
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let place = (state >> 8) as usize % runs.len();
                let gone = runs[place].live * deleted_of_32 / 32;
                runs[place].live -= gone;
                if let Some(frozen) = &mut runs[place].frozen {
                    frozen.dead += gone;
                }
                let frozen;
                (runs, frozen) = settled(runs);
                work += frozen;
                most = most.max(runs.iter().filter(|run| run.frozen.is_some()).count());
                assert!(due(&runs).is_none());
                assert!(runs.windows(2).all(|two| two[0].rows.end == two[1].rows.start));
                assert!(points(&runs) > 0);
            }
            println!(
                "batches of {batch}, {deleted_of_32}/32 deleted: {most} segments, {work} frozen of {next}"
            );
            assert!(most <= SEGMENTS_MAX, "{most}");
            assert!(work <= 20 * next as usize, "{work} points were frozen for {next}");
        }
    }
}
