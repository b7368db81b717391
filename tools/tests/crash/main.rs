//! A process that does everything at once is killed more than two hundred times, at random moments and at every named
//! fail point: nothing that was acknowledged is lost, nothing is there by half, and every bias belongs to the vector
//! that is there.
//!
//! What is expected is written outside of the data directory, by `journal`: a line before each operation and one
//! after it. Operations are functions of a number (`operation`), so the parent can replay them (`expected`).

mod child;
mod expected;
mod journal;
mod operation;
mod parent;

use dehub_index::FailPoint;

use crate::parent::{Kill, Parent};

/// Tells the test that it is the child, and where everything is.
const CHILD: &str = "DEHUB_CRASH_TEST_CHILD";
/// Kills of one test; several tests run side by side.
const KILLS: usize = 52;

fn run(test: &str, seed: u64, kills: impl Iterator<Item = Kill>) {
    if let Some(folder) = std::env::var_os(CHILD) {
        return child::run(std::path::Path::new(&folder), seed);
    }
    let mut parent = Parent::new(test, seed);
    for kill in kills {
        parent.kill_and_check(kill);
    }
    parent.end();
}

#[test]
fn killed_at_random_moments() {
    run("killed_at_random_moments", 1, Kill::at_random(1).take(KILLS));
}

#[test]
fn killed_at_random_moments_again() {
    run("killed_at_random_moments_again", 2, Kill::at_random(2).take(KILLS));
}

#[test]
fn killed_at_random_moments_once_more() {
    run("killed_at_random_moments_once_more", 3, Kill::at_random(3).take(KILLS));
}

/// The points where a running engine can be killed. The others belong to an upgrade, which has its own test.
fn points() -> impl Iterator<Item = FailPoint> {
    FailPoint::ALL.into_iter().filter(|&point| point != FailPoint::UpgradeBegun)
}

#[test]
fn killed_at_each_named_point_when_it_is_first_reached() {
    let kills = points().map(|point| Kill::At(point, 1));
    run("killed_at_each_named_point_when_it_is_first_reached", 4, kills);
}

#[test]
fn killed_at_each_named_point_when_it_is_reached_for_the_second_and_fourth_time() {
    let kills = points().flat_map(|point| [Kill::At(point, 2), Kill::At(point, 4)]);
    run("killed_at_each_named_point_when_it_is_reached_for_the_second_and_fourth_time", 5, kills);
}
