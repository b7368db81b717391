//! Pages of reports, looked at in Chromium: on a phone and a desktop, light and dark.

use std::env;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// Widths and heights of windows, in pixels.
const PHONE: (u32, u32) = (390, 844);
const SMALL_PHONE: (u32, u32) = (360, 640);
const DESKTOP: (u32, u32) = (1280, 900);

/// The least size of text in plots, in pixels of the screen.
const TEXT_MIN: f64 = 10.0;

/// The most of a page that is in a screenshot, in pixels.
const HEIGHT_MAX: u32 = 12_000;

#[derive(Debug, Clone, Copy)]
enum Scheme {
    Light,
    Dark,
}

/// Runs `dehub` in a folder; gives its exit code, and what it told.
fn dehub(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dehub"));
    let ended =
        command.current_dir(folder).args(arguments).stdin(Stdio::null()).output().expect("the binary runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (ended.status.code().expect("no signal"), text(&ended.stdout), text(&ended.stderr))
}

/// Runs a command that must succeed; gives what it prints.
fn ok(folder: &Path, arguments: &[&str]) -> String {
    let (code, stdout, stderr) = dehub(folder, arguments);
    assert_eq!(code, 0, "{arguments:?}: {stderr}");
    stdout
}

fn wordnet(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package is in the workspace");
    root.join("testdata/wordnet").join(name).to_str().expect("a path of text").to_owned()
}

/// Chromium without a window, with a profile that goes away.
struct Browser {
    profile: tempfile::TempDir,
}

impl Browser {
    fn new() -> Browser {
        Browser { profile: tempfile::tempdir().expect("a folder") }
    }

    fn run(&self, scheme: Scheme, window: (u32, u32), page: &Path, what: &[String]) -> String {
        let program = env::var_os("DEHUB_TEST_CHROMIUM").unwrap_or_else(|| "chromium".into());
        let mut command = Command::new(&program);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"]);
        command.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
        let scheme = match scheme {
            Scheme::Dark => 0,
            Scheme::Light => 1,
        };
        command.arg(format!("--blink-settings=preferredColorScheme={scheme}"));
        command.arg(format!("--user-data-dir={}", self.profile.path().display()));
        command.arg(format!("--window-size={},{}", window.0, window.1));
        command.args(what).arg(format!("file://{}", page.display()));
        let ended = command.stdin(Stdio::null()).output().unwrap_or_else(|error| {
            panic!("{}: {error}: run `make setup-test`, which installs Chromium", program.display())
        });
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "Chromium: {stderr}");
        String::from_utf8_lossy(&ended.stdout).into_owned()
    }

    /// What the page comes to at a size: a window cannot be as narrow as a phone, a frame in it can.
    fn measured(&self, page: &str, size: (u32, u32)) -> Value {
        let wrapped = self.wrapped(page, size);
        let dom = self.run(Scheme::Light, size, &wrapped, &["--dump-dom".to_owned()]);
        let (_, rest) = dom.split_once("data-measured=\"").expect("the script has run");
        let (measured, _) = rest.split_once('"').expect("the attribute ends");
        serde_json::from_str(&measured.replace("&quot;", "\"")).expect("what the script wrote")
    }

    fn shot(&self, page: &str, scheme: Scheme, size: (u32, u32), to: &Path) -> Pixels {
        let wrapped = self.wrapped(page, size);
        self.run(scheme, size, &wrapped, &[format!("--screenshot={}", to.display())]);
        Pixels::read(to)
    }

    /// A page with a frame of a size that has the page in it, and a script that measures it.
    fn wrapped(&self, page: &str, (width, height): (u32, u32)) -> PathBuf {
        let script = "addEventListener('load', () => {
            const page = document.querySelector('iframe').contentDocument, root = page.documentElement;
            const texts = [...page.querySelectorAll('svg.plot text')];
            const size = text => text.getScreenCTM().a * parseFloat(getComputedStyle(text).fontSize);
            const outside = text => {
                const own = text.getBoundingClientRect(), all = text.closest('svg').getBoundingClientRect();
                return own.left < all.left - 1 || own.right > all.right + 1 || own.bottom > all.bottom + 1;
            };
            document.documentElement.dataset.measured = JSON.stringify({
                width: root.clientWidth, needed: root.scrollWidth, height: root.scrollHeight,
                plots: page.querySelectorAll('svg.plot').length, text: Math.min(...texts.map(size)),
                outside: texts.filter(outside).map(text => text.textContent.trim()),
                loaded: page.defaultView.performance.getEntriesByType('resource').length,
            });
        });";
        let page = page.replace('&', "&amp;").replace('"', "&quot;");
        let wrapped = format!(
            "<!DOCTYPE html><meta charset=utf-8><body style='margin:0'><iframe style='border:0;display:block;\
             width:{width}px;height:{height}px' srcdoc=\"{page}\"></iframe><script>{script}</script>"
        );
        let file = self.profile.path().join("wrapped.html");
        fs::write(&file, wrapped).expect("the folder is writable");
        file
    }
}

/// A screenshot.
struct Pixels {
    size: (u32, u32),
    colors: Vec<[u8; 3]>,
}

impl Pixels {
    fn read(file: &Path) -> Pixels {
        let file = BufReader::new(File::open(file).expect("the screenshot is there"));
        let mut decoder = png::Decoder::new(file);
        decoder.set_transformations(
            png::Transformations::normalize_to_color8() | png::Transformations::STRIP_16,
        );
        let mut reader = decoder.read_info().expect("a PNG");
        let mut bytes = vec![0; reader.output_buffer_size().expect("a size")];
        let frame = reader.next_frame(&mut bytes).expect("an image");
        let channels = frame.color_type.samples();
        assert!(channels >= 3, "the screenshot has colours");
        let colors = bytes.chunks_exact(channels).map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
        Pixels { size: (frame.width, frame.height), colors }
    }

    /// The colour of most of the pixels, and how many others there are.
    fn ground(&self) -> ([u8; 3], usize) {
        let mut counts = std::collections::HashMap::new();
        for color in &self.colors {
            *counts.entry(*color).or_insert(0usize) += 1;
        }
        let (ground, _) = counts.iter().max_by_key(|(_, count)| **count).expect("there are pixels");
        (*ground, counts.len() - 1)
    }

    /// Rows of pixels that are not all of one colour.
    fn lines_with_something(&self) -> usize {
        let lines = self.colors.chunks_exact(self.size.0 as usize);
        lines.filter(|line| line.iter().any(|color| *color != line[0])).count()
    }
}

/// Fails if a page scrolls sideways, loads anything, or has plots that cannot be read.
#[track_caller]
fn check(measured: &Value) {
    assert_eq!(measured["needed"], measured["width"], "the page is wider than the window: {measured}");
    assert_eq!(measured["loaded"], 0, "the page loads something: {measured}");
    assert!(measured["plots"].as_u64() > Some(0), "no plots: {measured}");
    assert!(measured["text"].as_f64() >= Some(TEXT_MIN), "the text of plots is small: {measured}");
    assert_eq!(measured["outside"], json!([]), "text is cut off");
}

#[test]
fn the_page_of_the_demo_is_legible_on_phones_and_desktops_in_light_and_dark() {
    let folder = tempfile::tempdir().expect("a folder");
    let told = ok(folder.path(), &["demo", "--from", &wordnet("")]);
    assert!(told.contains("dehub-demo.html"), "{told}");
    let page = fs::read_to_string(folder.path().join("dehub-demo.html")).expect("the page");
    let browser = Browser::new();
    check(&browser.measured(&page, SMALL_PHONE));
    for (device, size) in [("phone", PHONE), ("desktop", DESKTOP)] {
        let measured = browser.measured(&page, size);
        check(&measured);
        let height = measured["height"].as_u64().expect("a height");
        let whole = (size.0, u32::try_from(height).expect("a height").min(HEIGHT_MAX));
        for (name, scheme) in [("light", Scheme::Light), ("dark", Scheme::Dark)] {
            let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("report-{device}-{name}.png"));
            let shot = browser.shot(&page, scheme, whole, &file);
            assert_eq!(shot.size, whole, "{}", file.display());
            let (ground, others) = shot.ground();
            assert!(others > 50, "{} has {others} colours beside its ground", file.display());
            let filled = shot.lines_with_something();
            assert!(filled > shot.size.1 as usize / 2, "{}: {filled} lines with something", file.display());
            let is_bright = ground.iter().all(|part| *part > 200);
            let is_dim = ground.iter().all(|part| *part < 60);
            let fits = match scheme {
                Scheme::Light => is_bright,
                Scheme::Dark => is_dim,
            };
            assert!(fits, "{}: the ground is {ground:?}", file.display());
        }
    }
}

/// Results with everything that is ever shown, and curves of speed.
fn everything(folder: &Path) -> (String, String) {
    let files = [
        "gallery.npy",
        "queries_test.npy",
        "queries_bank.npy",
        "gallery.jsonl",
        "queries_test.jsonl",
        "qrels.txt",
    ];
    let [gallery, queries, bank, gallery_meta, meta, qrels] = files.map(wordnet);
    let sources =
        ["--gallery", &gallery, "--gallery-meta", &gallery_meta, "--queries", &queries, "--meta", &meta];
    let methods = [
        "-m",
        "IS(beta=10|20|50)",
        "-m",
        "NNN(alpha=0.5|1,k=4|16)",
        "--bank-sizes",
        "100,1000",
        "--draws",
        "2",
    ];
    let others = [
        "--qrels",
        &qrels,
        "--bank",
        &bank,
        "--gallery-bank",
        &gallery,
        "--both-directions",
        "--output",
        "results.json",
    ];
    ok(folder, &[&["--quiet", "eval"][..], &sources, &methods, &others].concat());
    ok(folder, &["create", "words", "--dim", "128", "--full-scan-threshold", "100"]);
    ok(folder, &["--quiet", "import", "words", &gallery, "--meta", &gallery_meta]);
    let curves =
        ["--queries", &queries, "--effort", "16", "--effort", "64", "--rounds", "1", "--warm-up", "0"];
    let bench = ok(folder, &[&["--quiet", "--json", "bench", "words"][..], &curves].concat());
    let file = folder.join("bench.json");
    fs::write(&file, bench).expect("the folder is writable");
    ("results.json".to_owned(), "bench.json".to_owned())
}

#[test]
fn a_page_has_a_section_for_everything_there_is_and_none_for_what_is_not_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let (results, bench) = everything(folder);
    ok(folder, &["report", &results, "--bench", &bench, "-o", "page.html"]);
    let page = fs::read_to_string(folder.join("page.html")).expect("the page");
    let both = [
        "What is found",
        "How answers spread over points",
        "The points found most often",
        "What parameters do",
        "What the size of the bank does",
        "One threshold for all queries",
    ];
    let count = |page: &str, title: &str| page.matches(&format!("<h2>{title}</h2>")).count();
    for title in both {
        let wanted = if title == "What the size of the bank does" { 1 } else { 2 };
        assert!(count(&page, title) >= wanted, "{title}");
    }
    for title in ["Recall and speed", "What was measured, and from what"] {
        assert_eq!(count(&page, title), 1, "{title}");
    }
    for title in
        ["R@1 of IS over beta", "R@1 of NNN over k", "R@1 of NNN over alpha", "Queries a second over recall"]
    {
        assert!(page.contains(&format!("<h3>{title}</h3>")), "{title}");
    }
    for outside in ["http:", "https:", "src=", "href=", "url(", "@import", "<script"] {
        assert!(!page.contains(outside), "{outside}");
    }
    let browser = Browser::new();
    for size in [PHONE, DESKTOP] {
        check(&browser.measured(&page, size));
    }

    let mut bare = read(&folder.join(&results));
    let raw = &mut bare["rows"].as_array_mut().expect("rows")[..1][0];
    for list in ["hubness", "hubs"] {
        raw[list] = json!([]);
    }
    raw["roc"] = Value::Null;
    bare["rows"] = json!([raw.clone()]);
    bare["curves"] = json!([]);
    bare["reverse"] = Value::Null;
    fs::write(folder.join("bare.json"), bare.to_string()).expect("the folder is writable");
    ok(folder, &["report", "bare.json", "-o", "bare.html"]);
    let page = fs::read_to_string(folder.join("bare.html")).expect("the page");
    for title in &both[1..] {
        assert_eq!(count(&page, title), 0, "{title}");
    }
    assert_eq!((count(&page, both[0]), count(&page, "Recall and speed")), (1, 0));
    assert!(!page.contains("<figure"), "there is nothing to draw");
}

fn read(file: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(file).expect("the file")).expect("JSON")
}

/// Two queries and three points, whose ids and texts are `text`.
fn hostile(folder: &Path, text: &str) {
    let lines = |prefix: &str, vectors: &[[f32; 2]]| -> String {
        let line = |(place, vector): (usize, &[f32; 2])| {
            format!("{}\n", json!({ "id": format!("{prefix}{place}{text}"), "text": text, "vector": vector }))
        };
        vectors.iter().enumerate().map(line).collect()
    };
    let write =
        |name: &str, content: String| fs::write(folder.join(name), content).expect("the folder is writable");
    write("points.jsonl", lines("p", &[[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]]));
    write("<b>queries&.jsonl", lines("q", &[[1.0, 0.1], [0.1, 1.0]]));
    write("truth.txt", "0 0\n1 1\n".to_owned());
}

#[test]
fn ids_texts_names_of_files_and_of_methods_are_text_on_the_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let text = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&";
    hostile(folder, text);
    let files = ["--gallery", "points.jsonl", "--queries", "<b>queries&.jsonl", "--truth", "truth.txt"];
    let outcome = ["--output", "results.json", "--report", "page.html"];
    ok(
        folder,
        &[&["eval"][..], &files, &["-m", "NNN(alpha=0.5|1,k=1)", "--bank", "<b>queries&.jsonl"], &outcome]
            .concat(),
    );
    let mut results = read(&folder.join("results.json"));
    for row in results["rows"].as_array_mut().expect("rows") {
        let method = format!("{}{text}", row["method"].as_str().expect("a name"));
        row["method"] = json!(method);
        row["correction"] = json!(text);
    }
    results["leaks"] = json!([{ "bank": text, "queries": 2 }]);
    results["dehub"] = json!(text);
    fs::write(folder.join("hostile.json"), results.to_string()).expect("the folder is writable");
    let row = json!({ "ranking": text, "search": text, "recall": 0.5, "queries_per_second": 100.0 });
    let rows = [row.clone(), row];
    let bench =
        json!({ "collection": text, "points": 3, "queries": 2, "limit": 1, "threads": 1, "rows": rows });
    fs::write(folder.join("bench.json"), bench.to_string()).expect("the folder is writable");
    ok(folder, &["report", "hostile.json", "--bench", "bench.json", "--output", "hostile.html"]);
    for (page, least) in [("page.html", 4), ("hostile.html", 20)] {
        let page = fs::read_to_string(folder.join(page)).expect("the page");
        for tag in ["<script", "<img", "<b>"] {
            assert!(!page.contains(tag), "{tag}");
        }
        let told = page.matches("&lt;script&gt;alert(1)&lt;/script&gt;").count();
        assert!(told >= least, "{told} times");
        assert!(page.contains("&lt;b&gt;queries&amp;.jsonl"), "the name of a file");
    }
    // In plots a name that is too long is cut, and in nothing else.
    let page = fs::read_to_string(folder.join("hostile.html")).expect("the page");
    check(&Browser::new().measured(&page, PHONE));
}

#[test]
fn a_report_of_what_is_no_result_is_refused_with_the_file_and_what_was_wanted() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    hostile(folder, "");
    let files = ["--gallery", "points.jsonl", "--queries", "<b>queries&.jsonl", "--truth", "truth.txt"];
    ok(folder, &[&["eval"][..], &files, &["--output", "results.json"]].concat());
    let cases = [
        ("results.json", "{}", vec!["bench.json", "dehub bench", "collection"]),
        (
            "results.json",
            r#"{"collection":"c","points":1,"queries":1,"limit":1,"threads":1,"rows":[]}"#,
            vec!["bench.json", "rows"],
        ),
        ("other.json", "", vec!["other.json", "schema", "wanted 1", "found 99"]),
        ("absent.json", "", vec!["absent.json"]),
    ];
    fs::write(folder.join("other.json"), r#"{"schema":99}"#).expect("the folder is writable");
    for (results, bench, told) in cases {
        fs::write(folder.join("bench.json"), bench).expect("the folder is writable");
        let (code, _, stderr) =
            dehub(folder, &["report", results, "--bench", "bench.json", "-o", "page.html"]);
        assert_eq!(code, 1, "{stderr}");
        assert!(told.iter().all(|word| stderr.contains(word)), "wanted {told:?} in {stderr}");
        assert!(!folder.join("page.html").exists(), "nothing is written");
    }
}
