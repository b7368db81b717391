//! Where figures are kept: tables in `benches/runs`, each row with the day, the machine and the commit.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;

/// Adds rows to a table in `benches/runs`, which is made with these columns if it does not exist.
pub fn append_run(table: &str, columns: &str, rows: &[String]) -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("runs");
    fs::create_dir_all(&folder)?;
    let path = folder.join(table);
    let is_new = !path.exists();
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    if is_new {
        writeln!(file, "date,machine,commit,{columns}")?;
    }
    let date = said("date", &["-u", "+%F"]);
    let (machine, commit) = (machine(), said("git", &["describe", "--always", "--dirty"]));
    rows.iter().try_for_each(|row| writeln!(file, "{date},\"{machine}\",{commit},{row}"))
}

/// What a command says, or `unknown`.
fn said(command: &str, arguments: &[&str]) -> String {
    let output = Command::new(command).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let text = output.ok().filter(|output| output.status.success()).map(|output| output.stdout);
    text.map_or_else(|| "unknown".to_owned(), |text| String::from_utf8_lossy(&text).trim().to_owned())
}

fn machine() -> String {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        cpus.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split_once(": "));
    model.map_or("unknown", |(_, model)| model).to_owned()
}
