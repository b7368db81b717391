//! What is measured of the process: from `/proc`, and nothing where there is none.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use super::encode_one;

/// The unit of times in `/proc`: Linux tells programs of hundredths of a second, whatever it counts itself.
const TICKS_PER_SECOND: f64 = 100.0;

/// Measures the process.
#[derive(Debug)]
pub(super) struct Process;

/// What `/proc/self/stat` says.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Stat {
    cpu_seconds: f64,
    threads: u64,
    /// Since the machine started.
    started_seconds: f64,
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        if let Some(bytes) = read("/proc/self/status").as_deref().and_then(resident_bytes) {
            let head = ("memory_resident", "Memory in use", Some(Unit::Bytes));
            encode_one(encoder, head, ConstGauge::new(bytes))?;
        }
        if let Some(stat) = read("/proc/self/stat").as_deref().and_then(Stat::parse) {
            let head = ("process_cpu", "Processor time", Some(Unit::Seconds));
            encode_one(encoder, head, ConstCounter::new(stat.cpu_seconds))?;
            let head = ("process_threads", "Threads", None);
            encode_one(encoder, head, ConstGauge::new(stat.threads))?;
            if let Some(booted) = read("/proc/stat").as_deref().and_then(boot_seconds) {
                let head =
                    ("process_start_time", "When the process started, since 1970", Some(Unit::Seconds));
                encode_one(encoder, head, ConstGauge::new(booted + stat.started_seconds))?;
            }
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            // The folder that is read is open too.
            let count = open.count().saturating_sub(1) as u64;
            encode_one(
                encoder,
                ("process_open_fds", "Open files and sockets", None),
                ConstGauge::new(count),
            )?;
        }
        if let Some(most) = read("/proc/self/limits").as_deref().and_then(files_max) {
            let head = ("process_max_fds", "The most files and sockets that may be open", None);
            encode_one(encoder, head, ConstGauge::new(most))?;
        }
        Ok(())
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// `VmRSS:  123 kB`
fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// `Max open files   SOFT   HARD   files`; none if there is no limit.
fn files_max(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// `btime SECONDS`
fn boot_seconds(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

impl Stat {
    /// Fields by their numbers in proc(5), from 1. The second is the program's name in parentheses and may have any in
    /// it.
    fn parse(stat: &str) -> Option<Stat> {
        let rest = &stat[stat.rfind(')')? + 1..];
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u32>().ok();
        let (user, system) = (number(14)?, number(15)?);
        let started: f64 = fields.get(22 - 3)?.parse().ok()?;
        Some(Stat {
            cpu_seconds: (f64::from(user) + f64::from(system)) / TICKS_PER_SECOND,
            threads: number(20)?.into(),
            started_seconds: started / TICKS_PER_SECOND,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_read_whatever_the_program_is_called() {
        let stat = "71 (a (b) 9 c) S 1 71 71 0 -1 4194560 20 0 0 0 150 50 0 0 20 0 9 0 123400 5 6 7";
        let wanted = Stat { cpu_seconds: 2.0, threads: 9, started_seconds: 1234.0 };
        assert_eq!(Stat::parse(stat), Some(wanted));
        assert_eq!(Stat::parse("71 (a) S 1"), None);
        assert_eq!(resident_bytes("Name:\ta\nVmRSS:\t     12 kB\n"), Some(12 * 1024));
        assert_eq!(resident_bytes("Name:\ta\n"), None);
        assert_eq!(
            files_max("Limit  Soft\nMax open files            1024                 4096 files\n"),
            Some(1024)
        );
        assert_eq!(files_max("Max open files            unlimited            unlimited files\n"), None);
        assert_eq!(boot_seconds("cpu 1 2\nbtime 1700000000\n"), Some(1_700_000_000.0));
    }
}
