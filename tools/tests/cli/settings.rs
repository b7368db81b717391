//! Built-in values, then the file, then the environment, then flags.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{Dehub, ended};

fn data_dir_of(command: &mut Command) -> String {
    let ended =
        ended(command.args(["info", "--json"]).stdin(Stdio::null()).output().expect("the binary runs"));
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let info: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    info["data_dir"].as_str().expect("a path").to_owned()
}

#[test]
fn a_flag_beats_the_environment_which_beats_the_file_which_beats_the_default() {
    let dehub = Dehub::new();
    let bare = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dehub"));
        command.current_dir(dehub.path("."));
        command
    };
    assert_eq!(data_dir_of(&mut bare()), "dehub-data");
    dehub.file("dehub.toml", "data_dir = \"from-file\"\n[service]\nport = 7000\n");
    assert_eq!(data_dir_of(&mut bare()), "from-file");
    assert_eq!(data_dir_of(bare().env("DEHUB__DATA_DIR", "from-env")), "from-env");
    let mut flag = bare();
    assert_eq!(
        data_dir_of(flag.env("DEHUB__DATA_DIR", "from-env").args(["--data-dir", "from-flag"])),
        "from-flag"
    );
}

#[test]
fn a_setting_that_does_not_exist_is_refused_by_name() {
    let dehub = Dehub::new();
    let file = dehub.file("wrong.toml", "[service]\nprot = 7000\n");
    let ended = dehub.run(&["info", "--config", &file]);
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains("prot") && ended.stderr.contains("wrong.toml"), "{}", ended.stderr);
    let missing = dehub.run(&["info", "--config", "nowhere.toml"]);
    assert!(missing.code == 1 && missing.stderr.contains("nowhere.toml"), "{}", missing.stderr);
}

#[test]
fn wrong_usage_exits_with_two() {
    let dehub = Dehub::new();
    for arguments in [
        &["search", "x"][..],
        &["search", "x", "--id", "1", "--vector", "[1]"],
        &["create", "x"],
        &["create", "x", "--dim", "many"],
        &["bank", "x", "b"],
        &["bank", "x", "b", "f.npy", "--from-gallery"],
        &["fit", "x"],
        &["nonsense"],
    ] {
        assert_eq!(dehub.run(arguments).code, 2, "{arguments:?}");
    }
}

#[test]
fn every_command_explains_itself() {
    let dehub = Dehub::new();
    let all = dehub.ok(&["--help"]).stdout;
    for command in [
        "create", "import", "bank", "fit", "search", "hubs", "eval", "tune", "info", "delete", "serve",
        "demo",
    ] {
        assert!(all.contains(&format!("  {command}")), "{command} is missing in --help");
        assert!(dehub.ok(&[command, "--help"]).stdout.contains("Usage:"), "{command} --help");
    }
}
