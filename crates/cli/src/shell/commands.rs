//! The commands of the shell: those of DuckDB's, which begin with a point, and those of PostgreSQL's, which
//! begin with a backslash.

use crate::client::Client;
use crate::failure::{Failure, Outcome, say};
use crate::output::{Format, Target};
use clap::ValueEnum;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use whimbrel_plan::names::nearest;

/// What follows a command.
#[derive(Clone, Copy)]
pub enum Argument {
    /// A file.
    File,
    /// A table.
    Table,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Something else, or nothing.
    Other,
}

/// A command: its names, what follows them, what it does.
struct Command {
    names: &'static [&'static str],
    usage: &'static str,
    takes: Argument,
    help: &'static str,
    run: fn(&mut Client, &str) -> Outcome<ControlFlow<()>>,
}

const SWITCH: Argument = Argument::OneOf(&["on", "off"]);
const MODES: Argument = Argument::OneOf(&["table", "csv", "json", "parquet", "arrow", "markdown", "line"]);

const COMMANDS: &[Command] = &[
    Command {
        names: &[".help", "\\?", "\\h", "\\help"],
        usage: "",
        takes: Argument::Other,
        help: "list the commands",
        run: |_, _| done(help()),
    },
    Command {
        names: &[".quit", "\\q", ".exit", "\\quit"],
        usage: "",
        takes: Argument::Other,
        help: "leave",
        run: |_, _| Ok(ControlFlow::Break(())),
    },
    Command {
        names: &[".tables", "\\dt"],
        usage: "",
        takes: Argument::Other,
        help: "list the tables and views",
        run: |client, _| client.statement("show tables").map(ControlFlow::Continue),
    },
    Command {
        names: &[".schema", "\\d"],
        usage: "[TABLE]",
        takes: Argument::Table,
        help: "the columns of a table, of a file in quotes, or the list of tables",
        run: |client, table| match table {
            "" => client.statement("show tables").map(ControlFlow::Continue),
            table => client.statement(&format!("describe {table}")).map(ControlFlow::Continue),
        },
    },
    Command {
        names: &[".timer", "\\timing"],
        usage: "[on|off]",
        takes: SWITCH,
        help: "say how long each statement took",
        run: |client, word| {
            client.time = switched(word, client.time)?;
            report(client, &format!("timer is {}", on_off(client.time)))
        },
    },
    Command {
        names: &[".mode", "\\f"],
        usage: "[FORMAT]",
        takes: MODES,
        help: "the form of results: table, csv, json, parquet, arrow, markdown, line",
        run: mode,
    },
    Command {
        names: &["\\x"],
        usage: "[on|off]",
        takes: SWITCH,
        help: "a line a value, as .mode line",
        run: |client, word| {
            let on = switched(word, client.look.format == Some(Format::Line))?;
            client.look.format = on.then_some(Format::Line);
            report(client, &format!("a line a value is {}", on_off(on)))
        },
    },
    Command {
        names: &[".maxrows"],
        usage: "[N]",
        takes: Argument::Other,
        help: "how many rows of a table are shown; 0 shows all",
        run: |client, number| {
            if !number.is_empty() {
                client.look.max_rows = whole(number)?;
            }
            report(client, &format!("at most {} rows are shown", client.look.max_rows))
        },
    },
    Command {
        names: &[".maxwidth"],
        usage: "[N]",
        takes: Argument::Other,
        help: "how wide a table may be; without a number as wide as the terminal",
        run: |client, number| {
            client.look.max_width = if number.is_empty() { None } else { Some(whole(number)?.max(1)) };
            Ok(ControlFlow::Continue(()))
        },
    },
    Command {
        names: &[".output", "\\o"],
        usage: "[FILE]",
        takes: Argument::File,
        help: "results go into a file from now on; without one, to the terminal",
        run: |client, path| {
            client.target = Target::new((!path.is_empty()).then(|| PathBuf::from(path)));
            Ok(ControlFlow::Continue(()))
        },
    },
    Command {
        names: &[".read", "\\i"],
        usage: "FILE",
        takes: Argument::File,
        help: "run what stands in a file",
        run: |client, path| match path {
            "" => Err(Failure::Query(".read takes a file".into())),
            path => crate::command::script(client, Some(Path::new(path))).map(ControlFlow::Continue),
        },
    },
    Command {
        names: &[".shards"],
        usage: "[N]",
        takes: Argument::Other,
        help: "in how many shards files are read",
        run: |client, number| {
            let shards = if number.is_empty() { None } else { Some(whole(number)?.max(1)) };
            client.session.set_shards(shards);
            Ok(ControlFlow::Continue(()))
        },
    },
];

/// Runs a command; whether the shell goes on.
pub fn command(client: &mut Client, line: &str) -> Outcome<ControlFlow<()>> {
    let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let argument = argument.trim().trim_end_matches(';').trim_end();
    match find(name.trim_end_matches(';')) {
        Some(command) => (command.run)(client, unquoted(command, argument)),
        None => {
            let known: Vec<&str> = names().collect();
            let hint = match nearest(name, &known).first() {
                Some(near) => format!("did you mean {near}?"),
                None => ".help lists them".into(),
            };
            Err(Failure::Query(format!("there is no command {name}; {hint}")))
        }
    }
}

/// A file may stand in quotes here too.
fn unquoted<'a>(command: &Command, argument: &'a str) -> &'a str {
    let inner = argument.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    match (command.takes, inner) {
        (Argument::File, Some(inner)) => inner,
        _ => argument,
    }
}

/// The names of all commands.
pub fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().flat_map(|command| command.names.iter().copied())
}

/// What follows the command that a line begins with.
pub fn takes(line: &str) -> Argument {
    let name = line.split_whitespace().next().unwrap_or_default();
    find(name).map_or(Argument::Other, |command| command.takes)
}

fn find(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.names.contains(&name))
}

fn help() -> String {
    let lines = COMMANDS.iter().map(|command| {
        let head = format!("{} {}", command.names.join(" "), command.usage);
        format!("  {head:<30} {}", command.help)
    });
    let lines: Vec<String> = lines.collect();
    format!("{}\nEverything else is SQL and ends with a semicolon.", lines.join("\n"))
}

fn done(text: String) -> Outcome<ControlFlow<()>> {
    say(&text);
    Ok(ControlFlow::Continue(()))
}

/// Says it, if somebody is there to hear it.
fn report(client: &Client, text: &str) -> Outcome<ControlFlow<()>> {
    if client.chatty {
        say(text);
    }
    Ok(ControlFlow::Continue(()))
}

fn mode(client: &mut Client, word: &str) -> Outcome<ControlFlow<()>> {
    if !word.is_empty() {
        let format = match word {
            // DuckDB's names for them.
            "box" | "duckbox" => Format::Table,
            "jsonlines" => Format::Json,
            word => Format::from_str(word, true).map_err(|_| unknown_mode(word))?,
        };
        client.look.format = Some(format);
    }
    let format = client.target.format(&client.look);
    report(client, &format!("results are shown as {}", format.name()))
}

fn unknown_mode(word: &str) -> Failure {
    let known: Vec<&str> = Format::value_variants().iter().map(|format| format.name()).collect();
    let hint = match nearest(word, &known).first() {
        Some(near) => format!("did you mean {near}?"),
        None => format!("there are {}", known.join(", ")),
    };
    Failure::Query(format!("there is no mode {word}; {hint}"))
}

/// On or off; the other of what it is now, if nothing is said.
fn switched(word: &str, now: bool) -> Outcome<bool> {
    match word.to_ascii_lowercase().as_str() {
        "" => Ok(!now),
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(Failure::Query(format!("it is on or off, not {word}"))),
    }
}

fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

fn whole(text: &str) -> Outcome<usize> {
    text.parse().map_err(|_| Failure::Query(format!("it is a whole number, not {text}")))
}
