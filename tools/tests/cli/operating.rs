//! What an operator does: settings checked, keys made, a server asked, reloaded and ended.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{Dehub, Ended, ended};

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package is in the workspace")
}

/// Waits until `is_so`; a test that waits forever is stopped from outside.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(120), "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A server that was started with these arguments.
struct Served {
    process: Child,
    address: String,
}

impl Served {
    fn start(mut command: Command) -> Served {
        let mut process =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the binary runs");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let started: Value = serde_json::from_str(&line).expect("the address as JSON");
        Served { process, address: started["address"].as_str().expect("an address").to_owned() }
    }

    fn signal(&self, signal: &str) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().expect("kill runs").success());
    }

    fn status(&self, path: &str, key: &str) -> u16 {
        let config = ureq::Agent::config_builder().http_status_as_error(false).build();
        let agent = ureq::Agent::new_with_config(config);
        let request = agent.get(format!("{}{path}", self.address)).header("api-key", key);
        request.call().expect("an answer").status().as_u16()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

fn check(dehub: &Dehub, settings: &str, environment: &[(&str, &str)]) -> Ended {
    let file = dehub.file("checked.toml", settings);
    let mut command = dehub.command(&["serve", "--check", "--config", &file]);
    // Whatever listens at the usual port is not what is tested.
    command.env("DEHUB__SERVICE__PORT", "0");
    ended(command.envs(environment.iter().copied()).output().expect("the binary runs"))
}

#[test]
fn a_check_tells_whether_the_server_would_serve() {
    let dehub = Dehub::new();
    let keys = dehub.file("keys.toml", "[[key]]\nname = \"a\"\nhash = \"blake3:12\"\nrole = \"admin\"\n");
    let in_keys = format!("[service]\nkey_file = {keys:?}\n");
    let cases: [(&str, i32, &str); 25] = [
        ("", 0, "service.host = \"127.0.0.1\""),
        (
            "[service]\nworkers = 3\ncors_origins = [\"https://a.example\"]\nhosts = [\"a.example\"]\n",
            0,
            "service.workers = 3",
        ),
        ("[service]\nhosts = [\"http://a.example\"]", 2, "`http://a.example`"),
        ("[service]\nrate_burst = 5", 2, "rate_per_second"),
        ("[service]\nbody_limit_bytes = 99999999999999", 2, "64 GiB"),
        ("backups = \"/proc/none\"", 1, "/proc/none"),
        ("[observe]\notlp_sample = 2", 2, "wanted 0 to 1"),
        ("[observe]\notlp_sample = nan", 2, "wanted 0 to 1"),
        (
            "[service]\napi_key = \"0123456789abcdef\"\nhost = \"0.0.0.0\"",
            0,
            "service.api_key = \"(hidden)\"",
        ),
        ("[service]\nhost = \"0.0.0.0\"\nallow_unauthenticated = true", 0, "all is well"),
        ("[service]\nhost = \"0.0.0.0\"", 2, "--allow-unauthenticated"),
        ("[service]\nrequests_max = 0", 2, "at least 1"),
        ("[service]\ncors_origins = [\"*\"]", 2, "`*`"),
        ("[service]\napi_key = \"\"", 2, "`service.api_key` is empty"),
        ("[service]\n\nprot = 7000", 2, "line 3: unknown field `prot`"),
        ("[serve]\nport = 7000", 2, "line 1: unknown field `serve`"),
        ("[service]\ntimeout_seconds = -1", 2, "line 2"),
        (&in_keys, 1, "64 hex digits"),
        ("[service.tls]\ncertificate = \"no.pem\"\nkey = \"no.pem\"", 1, "no.pem"),
        ("[service.audit]\npath = \"no/such/audit\"", 1, "no/such/audit"),
        ("", 0, "observe.slow_query_ms = 500"),
        ("[observe]\nlog_format = \"json\"", 0, "observe.log_format = \"json\""),
        ("[observe]\nlog_format = \"xml\"", 2, "line 2"),
        ("[observe]\notlp_endpoint = \"https://a.example\"", 2, "wanted http://HOST:PORT"),
        ("[observe]\notlp_endpoint = \"http://a.example\"\notlp_sample = 2", 2, "wanted 0 to 1"),
    ];
    for (settings, code, wanted) in cases {
        let ended = check(&dehub, settings, &[]);
        let told = format!("{}{}", ended.stdout, ended.stderr);
        assert!(ended.code == code && told.contains(wanted), "{settings}: {} {told}", ended.code);
        assert!(!told.contains("0123456789abcdef"), "{told}");
    }
    assert!(!dehub.path("data").exists(), "a check makes nothing");
    dehub.file("file", "");
    let wrong = dehub.run(&["serve", "--check", "--data-dir", dehub.path("file").to_str().expect("UTF-8")]);
    assert!(wrong.code == 1 && wrong.stdout.contains("is a file"), "{}{}", wrong.stdout, wrong.stderr);
    let file = dehub.file("empty.toml", "data_dir = \"\"");
    let mut command = Command::new(env!("CARGO_BIN_EXE_dehub"));
    command.current_dir(dehub.path("")).args(["serve", "--check", "--config", &file]);
    let empty = ended(command.output().expect("the binary runs"));
    assert!(
        empty.code != 0 && empty.stderr.contains("data_dir is empty"),
        "{}{}",
        empty.stdout,
        empty.stderr
    );
}

#[test]
fn a_check_tells_of_a_port_and_a_data_directory_that_another_server_has() {
    let dehub = Dehub::new();
    let served = Served::start(dehub.command(&["serve", "--port", "0", "--json"]));
    let port = served.address.rsplit(':').next().expect("a port");
    let told = dehub.run(&["serve", "--check", "--port", port]);
    assert_eq!(told.code, 1, "{}", told.stdout);
    let process = served.process.id().to_string();
    for wanted in [format!(":{port} is in use"), process] {
        assert!(told.stdout.contains(&wanted), "{wanted}: {}", told.stdout);
    }
    drop(served);
    let told = dehub.run(&["serve", "--check", "--port", "0"]);
    assert_eq!(told.code, 0, "{}", told.stdout);
    let unfit = dehub.run(&["serve", "--port", "0", "--backups", "/proc/none"]);
    assert!(unfit.code == 1 && unfit.stderr.contains("/proc/none"), "{}", unfit.stderr);
}

#[test]
fn keys_of_one_file_have_names_of_their_own() {
    let dehub = Dehub::new();
    let path = dehub.path("keys.toml");
    let new = |more: &[&str]| {
        let arguments = [&["key", "new", "--into", path.to_str().expect("UTF-8")], more].concat();
        dehub.run(&arguments)
    };
    for (more, name) in [
        (&["--role", "admin"][..], "`key`"),
        (&["--role", "read-only"], "`key-2`"),
        (&["--name", "key-3"], "`key-3`"),
        (&[], "`key-4`"),
    ] {
        let made = new(more);
        assert!(made.code == 0 && made.stdout.contains(name), "{}{}", made.stdout, made.stderr);
    }
    let before = fs::read_to_string(&path).expect("there");
    let taken = new(&["--name", "key-2"]);
    assert!(taken.code == 1 && taken.stderr.contains("`key-2`"), "{}", taken.stderr);
    assert_eq!(fs::read_to_string(&path).expect("there"), before);
    let mut command = dehub.command(&["serve", "--port", "0", "--json"]);
    command.args(["--key-file", path.to_str().expect("UTF-8")]);
    assert_eq!(Served::start(command).status("/collections", "none"), 401);
    fs::write(&path, "[[key]]\nname = 1\n").expect("written");
    let broken = new(&[]);
    assert!(broken.code == 1 && broken.stderr.contains("line 2"), "{}", broken.stderr);
    assert_eq!(fs::read_to_string(&path).expect("there"), "[[key]]\nname = 1\n");
}

#[test]
fn the_environment_sets_what_the_file_does_and_keys_as_they_are() {
    let dehub = Dehub::new();
    let settings = "[service]\nworkers = 7\n";
    let told = check(
        &dehub,
        settings,
        &[
            ("DEHUB__SERVICE__WORKERS", "8"),
            ("DEHUB__SERVICE__HOSTS", "a.example,b.example"),
            ("DEHUB__SERVICE__TIMEOUT_SECONDS", "2"),
            ("DEHUB__SERVICE__CORS_ORIGINS", "https://a.example,https://b.example"),
            ("DEHUB__SERVICE__AUDIT__PATH", "audit"),
        ],
    );
    for line in [
        "service.workers = 8",
        "service.hosts = [\"a.example\",\"b.example\"]",
        "service.timeout_seconds = 2.0",
        "service.cors_origins = [\"https://a.example\",\"https://b.example\"]",
        "service.audit.path = \"audit\"",
    ] {
        assert!(told.code == 0 && told.stdout.contains(line), "{line}: {}{}", told.stdout, told.stderr);
    }
    for (name, value) in [("DEHUB__SERVICE__PORT", "many"), ("DEHUB__SERVICE__PROT", "1")] {
        let wrong = check(&dehub, "", &[(name, value)]);
        let word = if value == "many" { "many" } else { "prot" };
        assert!(wrong.code == 2 && wrong.stderr.contains(word), "{}{}", wrong.stdout, wrong.stderr);
    }
    let mut command = dehub.command(&["serve", "--port", "0", "--json"]);
    // They look like a number and a truth.
    command.env("DEHUB__SERVICE__API_KEY", "007e5").env("DEHUB__SERVICE__READ_ONLY_API_KEY", "true");
    let served = Served::start(command);
    for (key, wanted) in [("007e5", 200), ("true", 200), ("700000", 401), ("7e5", 401), ("TRUE", 401)] {
        assert_eq!(served.status("/collections", key), wanted, "{key}");
    }
    assert_eq!(["007e5", "true"].map(|key| served.status("/nothing", key)), [404, 403]);
}

#[test]
fn the_settings_that_are_shipped_pass_the_check() {
    let dehub = Dehub::new();
    let shipped = repository().join("packaging/dehub.toml");
    let shipped = shipped.to_str().expect("UTF-8");
    dehub.ok(&["serve", "--check", "--config", shipped]);
    // With what it only suggests.
    let text = fs::read_to_string(shipped).expect("it is there");
    let folder = dehub.path(".").to_str().expect("UTF-8").to_owned();
    let suggested: String = text
        .lines()
        .map(|line| line.strip_prefix("# ").filter(|rest| rest.contains(" = ") || rest.starts_with('[')))
        .zip(text.lines())
        .map(|(suggested, line)| suggested.unwrap_or(line).to_owned() + "\n")
        .collect();
    let suggested = suggested.replace("/etc/dehub", &folder).replace("/var/lib/dehub", &folder);
    let told = check(&dehub, &suggested, &[]);
    let lines = ["key_file", "tls.certificate", "tls.key", "tls.client_authorities", "audit.path", "backups"];
    for name in lines {
        assert!(told.stdout.contains(name), "{name}: {suggested}\n{}{}", told.stdout, told.stderr);
    }
    // It knows all the settings, and finds that the files are not there.
    assert_eq!(told.code, 1, "{}", told.stdout);
}

#[test]
fn a_key_is_shown_once_and_its_entry_lets_it_in() {
    let dehub = Dehub::new();
    let keys = dehub.path("keys.toml").to_str().expect("UTF-8").to_owned();
    let new = |arguments: &[&str]| {
        let made = dehub.json(&[&["key", "new"], arguments, &["--into", &keys]].concat());
        made["key"].as_str().expect("a key").to_owned()
    };
    let admin = new(&["--name", "chief", "--role", "admin"]);
    let reader = new(&["--name", "reader"]);
    let shop = new(&["--name", "shop", "--collection", "shop:write", "--collection", "docs"]);
    let text = fs::read_to_string(&keys).expect("the file");
    assert!(
        [&admin, &reader, &shop].iter().all(|key| key.len() == 70 && !text.contains(key.as_str())),
        "{text}"
    );
    assert!(text.contains("collections = { \"docs\" = \"read\", \"shop\" = \"write\" }"), "{text}");
    let shown = dehub.ok(&["key", "new", "--name", "x"]).stdout;
    assert!(
        shown.starts_with("dehub_") && shown.contains("[[key]]\nname = \"x\"\nhash = \"blake3:"),
        "{shown}"
    );
    for wrong in ["a/b", "x:all", "", ":write"] {
        assert_eq!(dehub.run(&["key", "new", "--collection", wrong]).code, 2, "{wrong:?}");
    }
    assert_eq!(dehub.run(&["key", "new", "--role", "admin", "--collection", "x"]).code, 2);

    let served = Served::start(dehub.command(&["serve", "--port", "0", "--json", "--key-file", &keys]));
    let statuses = |path: &str| [&admin, &reader, &shop, "none"].map(|key| served.status(path, key));
    assert_eq!(statuses("/collections"), [200, 200, 200, 401]);
    assert_eq!(statuses("/collections/docs/exists"), [200, 200, 200, 401]);
    assert_eq!(statuses("/collections/other/exists"), [200, 200, 403, 401]);
    assert_eq!(statuses("/nothing"), [404, 403, 403, 401]);
}

#[test]
fn a_server_is_asked_reloaded_and_ended_by_signals() {
    let dehub = Dehub::new();
    let (audit, moved) = (dehub.path("audit"), dehub.path("audit.1"));
    let mut command = dehub.command(&["serve", "--port", "0", "--json", "--audit-log", "audit"]);
    command.env("DEHUB__SERVICE__AUDIT__BLOCKS", "true").env("DEHUB__SERVICE__API_KEY", "0123456789abcdef");
    let mut served = Served::start(command);
    let port = served.address.rsplit_once(':').expect("a port").1.to_owned();
    let ping = |arguments: &[&str]| {
        let mut command = dehub.command(&[&["ping"], arguments].concat());
        ended(command.env("DEHUB__SERVICE__PORT", &port).output().expect("the binary runs"))
    };
    assert!(ping(&[]).stdout.contains("lives"));
    assert!(ping(&["--ready"]).stdout.contains("is ready"));

    assert_eq!(served.status("/collections", "wrong"), 401);
    fs::rename(&audit, &moved).expect("renamed");
    served.signal("-HUP");
    eventually("the log is opened anew", || {
        assert_eq!(served.status("/collections", "wrong"), 401);
        fs::read_to_string(&audit).is_ok_and(|text| text.contains("\"status\":401"))
    });
    assert!(fs::read_to_string(&moved).expect("the old log").contains("\"status\":401"));

    served.signal("-TERM");
    assert_eq!(served.process.wait().expect("it ends").code(), Some(0));
    let gone = ping(&[]);
    assert!(gone.code == 1 && gone.stderr.contains(&port), "{}", gone.stderr);
}

#[test]
fn a_server_that_speaks_tls_is_asked_over_tls_and_known_by_its_certificate() {
    let dehub = Dehub::new();
    let issued = || rcgen::generate_simple_self_signed(vec!["dehub.test".to_owned()]).expect("a certificate");
    let (own, other) = (issued(), issued());
    let (certificate, key) =
        (dehub.file("cert.pem", own.cert.pem()), dehub.file("key.pem", own.signing_key.serialize_pem()));
    let authorities = dehub.file("clients.pem", other.cert.pem());
    let other = dehub.file("other.pem", other.cert.pem());
    for clients in [None, Some(&authorities)] {
        let with = |command: &mut Command, certificate: &str| {
            command
                .env("DEHUB__SERVICE__TLS__CERTIFICATE", certificate)
                .env("DEHUB__SERVICE__TLS__KEY", &key);
            if let Some(clients) = clients {
                command.env("DEHUB__SERVICE__TLS__CLIENT_AUTHORITIES", clients);
            }
        };
        let mut command = dehub.command(&["serve", "--port", "0", "--json"]);
        with(&mut command, &certificate);
        let served = Served::start(command);
        let port = served.address.rsplit_once(':').expect("a port").1.to_owned();
        let ping = |certificate: &str, arguments: &[&str]| {
            let mut command = dehub.command(&[&["ping"], arguments].concat());
            with(&mut command, certificate);
            ended(command.env("DEHUB__SERVICE__PORT", &port).output().expect("the binary runs"))
        };
        let wanted =
            if clients.is_some() { "answers only clients that have a certificate" } else { "is ready" };
        let told = ping(&certificate, &["--ready"]);
        assert!(told.code == 0 && told.stdout.contains(wanted), "{told:?}");
        let told = ping(&other, &[]);
        assert!(told.code == 1 && told.stderr.contains("another certificate than the file"), "{told:?}");
    }
}

#[test]
fn the_second_signal_ends_a_server_that_waits_and_readiness_ends_at_the_first() {
    let dehub = Dehub::new();
    let mut command = dehub.command(&["serve", "--port", "0", "--json"]);
    command.env("DEHUB__SERVICE__STOP_DELAY_SECONDS", "600");
    let mut served = Served::start(command);
    assert_eq!(["/livez", "/readyz"].map(|path| served.status(path, "")), [200, 200]);
    served.signal("-TERM");
    eventually("it is not ready any more", || served.status("/readyz", "") == 503);
    assert_eq!(["/livez", "/collections"].map(|path| served.status(path, "")), [200, 200], "it still serves");
    served.signal("-TERM");
    assert_eq!(served.process.wait().expect("it ends").code(), None, "by the signal");
}

#[test]
fn systemd_understands_the_unit_that_is_shipped() {
    let unit = repository().join("packaging/dehub.service");
    let text = fs::read_to_string(&unit).expect("it is there");
    for line in ["DynamicUser=yes", "ProtectSystem=strict", "NoNewPrivileges=yes", "StateDirectory=dehub"] {
        assert!(text.lines().any(|own| own == line), "{line}");
    }
    // Where systemd is not, or the command has another place, only the text is looked at.
    let dehub = Dehub::new();
    let here = text.replace("/usr/bin/dehub", env!("CARGO_BIN_EXE_dehub"));
    let copy = dehub.file("dehub.service", here);
    let Ok(verified) = Command::new("systemd-analyze").args(["verify", "--man=no", &copy]).output() else {
        return;
    };
    let told = String::from_utf8_lossy(&verified.stderr);
    assert!(!told.contains("dehub.service"), "{told}");
}
