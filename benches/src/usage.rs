//! What this process has used, as Linux counts it.

use std::fs;

/// Ticks a second of the counters in `/proc`, the same on every architecture of Linux.
const TICKS: f64 = 100.0;

/// Processor seconds of all threads so far, to 10 ms; `None` where there is no `/proc`.
pub fn process_cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name may hold spaces; it ends with the last bracket. The 12th and 13th fields after it count ticks.
    let fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11).take(2);
    let ticks: Vec<f64> = fields.filter_map(|field| field.parse().ok()).collect();
    (ticks.len() == 2).then(|| (ticks[0] + ticks[1]) / TICKS)
}

/// Processor seconds of this thread so far; `None` where there is no `/proc`.
pub fn thread_cpu_seconds() -> Option<f64> {
    // The kernel brings the count of a running thread up to date when the thread yields.
    std::thread::yield_now();
    let nanoseconds: f64 =
        fs::read_to_string("/proc/thread-self/schedstat").ok()?.split_whitespace().next()?.parse().ok()?;
    Some(nanoseconds / 1e9)
}

/// Bytes of memory in use; `None` where there is no `/proc`.
pub fn resident_bytes() -> Option<f64> {
    memory("VmRSS:")
}

/// The most bytes of memory that another process has used at once so far; `None` once it has ended.
pub fn peak_bytes_of(process: u32) -> Option<f64> {
    memory_of(&process.to_string(), "VmHWM:")
}

/// The most bytes of memory that were in use at once; `None` where there is no `/proc`.
pub fn peak_bytes() -> Option<f64> {
    memory("VmHWM:")
}

fn memory(field: &str) -> Option<f64> {
    memory_of("self", field)
}

fn memory_of(process: &str, field: &str) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kilobytes: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024.0)
}
