//! The command `dehub`.

mod cli;
mod commands;
mod judged;
mod load;
mod load_multi;
mod output;
mod report;
mod settings;
mod telemetry;

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use dehub_index::Catalogue;

use crate::cli::{Cli, Command};
use crate::commands::{Context, Outcome};
use crate::output::{Form, Output};
use crate::settings::Settings;
use crate::telemetry::{LogFormat, Telemetry};

fn main() -> ExitCode {
    outlive_file_limits();
    let cli = Cli::parse();
    let json = cli.json;
    match run(cli) {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::SomeRefused) => ExitCode::from(3),
        Ok(Outcome::NotWhole) => ExitCode::FAILURE,
        Ok(Outcome::WrongSettings) => ExitCode::from(2),
        // Whoever read the results has seen enough.
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            tell(&error, json);
            ExitCode::FAILURE
        }
    }
}

/// A write past a limit on the sizes of files is to fail as one on a full disk does, not to end the process.
fn outlive_file_limits() {
    let ignored = Arc::default();
    // Where the signal cannot be caught, it ends the process as before.
    _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, ignored);
}

fn run(cli: Cli) -> anyhow::Result<Outcome> {
    let mut settings = match settings::read(cli.config.as_deref(), cli.data_dir) {
        Err(error) if matches!(&cli.command, Command::Serve(serve) if serve.check) => {
            tell(&error, cli.json);
            return Ok(Outcome::WrongSettings);
        }
        settings => settings?,
    };
    if cli.using.is_some() && !cli.command.is_of_one_vector() {
        anyhow::bail!(
            "--using has no meaning for this command, which is not about one vector of a collection"
        );
    }
    let telemetry = start_telemetry(&mut settings, &cli.command)?;
    let context = Context {
        using: cli.using,
        catalogue: Arc::new(Catalogue::new(&settings.data_dir)),
        settings,
        output: Output { form: if cli.json { Form::Json } else { Form::Text }, quiet: cli.quiet },
    };
    match cli.command {
        Command::Create(command) => commands::create::run(&context, &command),
        Command::Durability(command) => commands::durability::run(&context, &command),
        Command::Freeze(command) => commands::freeze::run(&context, &command),
        Command::Import(command) => commands::import::run(&context, &command),
        Command::Export(command) => commands::export::run(&context, &command),
        Command::Prior(command) => commands::prior::run(&context, &command),
        Command::Text(command) => commands::texts::run(&context, &command),
        Command::Bank(command) => commands::bank::run(&context, &command),
        Command::Rewrite(command) => commands::rewrite::run(&context, &command),
        Command::Fit(command) => commands::fit::run(&context, &command),
        Command::Search(command) => commands::search::run(&context, &command),
        Command::Hubs(command) => commands::hubs::run(&context, &command),
        Command::Eval(command) => commands::eval::run(&context, &command),
        Command::Report(command) => commands::report::run(&context, &command),
        Command::Bench(command) => commands::bench::run(&context, &command),
        Command::Train(command) => commands::train::run(&context, &command),
        Command::Adapt(command) => commands::adapt::run(&context, &command),
        Command::Measure(command) => commands::measure::run(&context, &command),
        Command::Tune(command) => commands::tune::run(&context, &command),
        Command::Default(command) => commands::default::run(&context, &command),
        Command::Quarantine(command) => commands::quarantine::run(&context, &command),
        Command::Live(command) => commands::live::run(&context, &command),
        Command::Drift(command) => commands::drift::run(&context, &command),
        Command::Info(command) => commands::info::run(&context, &command),
        Command::Verify(command) => commands::verify::run(&context, &command),
        Command::Compact(command) => commands::compact::run(&context, &command),
        Command::Delete(command) => commands::delete::run(&context, &command),
        Command::Backup(command) => commands::backup::run(&context, &command),
        Command::Restore(command) => commands::restore::run(&context, &command),
        Command::Serve(command) => commands::serve::run(&context, command, &telemetry),
        Command::Openapi => commands::openapi::run(),
        Command::Ping(command) => commands::ping::run(&context, &command),
        Command::Key(command) => commands::key::run(&context, &command),
        Command::Demo(command) => commands::demo::run(&context, &command),
    }
}

/// A server tells of itself as its settings and flags say; all other commands log as text.
fn start_telemetry(settings: &mut Settings, command: &Command) -> anyhow::Result<Telemetry> {
    let Command::Serve(serve) = command else { return Telemetry::start(LogFormat::Text, None) };
    settings.observe.apply(&serve.observe);
    if serve.check {
        return Telemetry::start(LogFormat::Text, None);
    }
    settings.observe.check()?;
    Telemetry::start(settings.observe.log_format, settings.observe.otlp().as_ref())
}

fn tell(error: &anyhow::Error, json: bool) {
    let mut stderr = io::stderr().lock();
    // A closed standard error is no reason to fail differently.
    _ = if json {
        writeln!(stderr, "{}", serde_json::json!({ "error": message(error) }))
    } else {
        writeln!(stderr, "error: {}", message(error))
    };
}

/// An error with its causes, but for those it tells already.
fn message(error: &anyhow::Error) -> String {
    let mut message = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !message.contains(&cause) {
            message = format!("{message}: {cause}");
        }
    }
    message
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let io_error = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>().map(io::Error::kind) == Some(io::ErrorKind::BrokenPipe)
    };
    error.chain().any(io_error)
}
