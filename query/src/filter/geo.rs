//! Areas on earth.

use dehub_index::GeoPoint;

/// The mean radius of the earth, in metres, as the IUGG gives it.
pub const EARTH_RADIUS_METRES: f64 = 6_371_008.8;

/// An area. Its border is outside.
#[derive(Debug, Clone, PartialEq)]
pub enum Area {
    /// Between two meridians and two parallels; over the meridian of 180° if the left one is the greater.
    Box {
        /// The north-western corner.
        top_left: GeoPoint,
        /// The south-eastern corner.
        bottom_right: GeoPoint,
    },
    /// Nearer to a place than this.
    Circle {
        /// The place.
        center: GeoPoint,
        /// In metres.
        radius: f64,
    },
    /// Within a ring and in none of its holes, in the plane of degrees. The border of a hole is outside too.
    Polygon {
        /// The ring.
        exterior: Vec<GeoPoint>,
        /// The holes.
        interiors: Vec<Vec<GeoPoint>>,
    },
}

impl Area {
    /// Whether a place is in it.
    pub fn contains(&self, point: GeoPoint) -> bool {
        match self {
            Area::Box { top_left, bottom_right } => {
                let (west, east) = (top_left.lon < point.lon, point.lon < bottom_right.lon);
                let is_between = if top_left.lon > bottom_right.lon { west || east } else { west && east };
                is_between && top_left.lat > point.lat && point.lat > bottom_right.lat
            }
            Area::Circle { center, radius } => distance(*center, point) < *radius,
            Area::Polygon { exterior, interiors } => {
                side(exterior, point) == Side::Inside
                    && interiors.iter().all(|hole| side(hole, point) == Side::Outside)
            }
        }
    }
}

/// The distance of two places along the surface, in metres (haversine).
fn distance(a: GeoPoint, b: GeoPoint) -> f64 {
    let half = |a: f64, b: f64| ((b.to_radians() - a.to_radians()) / 2.0).sin().powi(2);
    let cosines = a.lat.to_radians().cos() * b.lat.to_radians().cos();
    2.0 * EARTH_RADIUS_METRES * (half(a.lat, b.lat) + cosines * half(a.lon, b.lon)).sqrt().min(1.0).asin()
}

/// Where a place is to a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Inside,
    Border,
    Outside,
}

/// Counts the edges that a ray from the place crosses.
fn side(ring: &[GeoPoint], point: GeoPoint) -> Side {
    let mut is_inside = false;
    for (a, b) in ring.iter().zip(ring.iter().cycle().skip(1)) {
        let turn = (b.lat - a.lat) * (point.lon - a.lon) - (b.lon - a.lon) * (point.lat - a.lat);
        let is_beside = (a.lat - point.lat) * (b.lat - point.lat) <= 0.0
            && (a.lon - point.lon) * (b.lon - point.lon) <= 0.0;
        if turn == 0.0 && is_beside {
            return Side::Border;
        }
        if (a.lon > point.lon) != (b.lon > point.lon) {
            let crossing = a.lat + (b.lat - a.lat) * (point.lon - a.lon) / (b.lon - a.lon);
            is_inside ^= point.lat < crossing;
        }
    }
    if is_inside { Side::Inside } else { Side::Outside }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(lat: f64, lon: f64) -> GeoPoint {
        GeoPoint { lat, lon }
    }

    #[test]
    fn a_quarter_of_a_great_circle_is_as_long_as_it_should_be() {
        let quarter = std::f64::consts::FRAC_PI_2 * EARTH_RADIUS_METRES;
        for (a, b) in [
            (at(0.0, 0.0), at(90.0, 17.0)),
            (at(0.0, -30.0), at(0.0, 60.0)),
            (at(0.0, 135.0), at(0.0, -135.0)),
        ] {
            assert!((distance(a, b) - quarter).abs() < 1e-6);
        }
        assert!((distance(at(0.0, 0.0), at(0.0, 180.0)) - 2.0 * quarter).abs() < 1e-6);
    }

    #[test]
    fn a_box_may_cross_the_date_line() {
        let area = Area::Box { top_left: at(10.0, 170.0), bottom_right: at(-10.0, -170.0) };
        assert!(area.contains(at(0.0, 175.0)) && area.contains(at(0.0, -175.0)));
        assert!(
            !area.contains(at(0.0, 0.0)) && !area.contains(at(0.0, 170.0)) && !area.contains(at(10.0, 180.0))
        );
    }

    #[test]
    fn a_polygon_has_holes_and_no_border() {
        let square =
            |from: f64, to: f64| vec![at(from, from), at(from, to), at(to, to), at(to, from), at(from, from)];
        let area = Area::Polygon { exterior: square(0.0, 10.0), interiors: vec![square(4.0, 6.0)] };
        for (lat, lon, inside) in [
            (2.0, 2.0, true),
            (2.0, 5.0, true),
            (5.0, 5.0, false),
            (4.0, 5.0, false),
            (0.0, 5.0, false),
            (10.0, 10.0, false),
            (11.0, 5.0, false),
        ] {
            assert_eq!(area.contains(at(lat, lon)), inside, "{lat} {lon}");
        }
    }
}
