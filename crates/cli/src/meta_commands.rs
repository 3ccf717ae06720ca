//! Meta-commands: lines of the shell and of scripts that are not SQL. Those with a dot are DuckDB's, those
//! with a backslash PostgreSQL's.

use crate::client::Client;
use crate::error::{Error, Result, print_message};
use crate::output::{Format, Target};
use clap::ValueEnum;
use std::path::PathBuf;
use whimbrel_plan::names::nearest;

/// The argument of a meta-command, for completion.
#[derive(Clone, Copy)]
pub enum Argument {
    /// A file.
    File,
    /// A table.
    Table,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Anything else, or nothing.
    Other,
}

/// What the shell or the script does after a meta-command.
pub enum Next {
    /// Goes on.
    Continue,
    /// Ends.
    Quit,
    /// Runs a script, then goes on.
    ReadScript(PathBuf),
}

/// A meta-command.
struct MetaCommand {
    names: &'static [&'static str],
    usage: &'static str,
    argument: Argument,
    help: &'static str,
    run: fn(&mut Client, &str) -> Result<Next>,
}

/// The words of a switch.
const SWITCH: Argument = Argument::OneOf(&["on", "off"]);
/// The formats of results.
const MODES: Argument = Argument::OneOf(&["table", "csv", "json", "parquet", "arrow", "markdown", "line"]);

/// All meta-commands, in the order of the help.
const META_COMMANDS: &[MetaCommand] = &[
    MetaCommand {
        names: &[".help", "\\?", "\\h", "\\help"],
        usage: "",
        argument: Argument::Other,
        help: "list the commands",
        run: |_, _| {
            print_message(&help());
            Ok(Next::Continue)
        },
    },
    MetaCommand {
        names: &[".quit", "\\q", ".exit", "\\quit"],
        usage: "",
        argument: Argument::Other,
        help: "leave",
        run: |_, _| Ok(Next::Quit),
    },
    MetaCommand {
        names: &[".tables", "\\dt"],
        usage: "",
        argument: Argument::Other,
        help: "list the tables and views",
        run: |client, _| run_statement(client, "show tables"),
    },
    MetaCommand {
        names: &[".schema", "\\d"],
        usage: "[TABLE]",
        argument: Argument::Table,
        help: "the columns of a table, of a file in quotes, or the list of tables",
        run: |client, table| match table {
            "" => run_statement(client, "show tables"),
            table => run_statement(client, &format!("describe {table}")),
        },
    },
    MetaCommand {
        names: &[".timer", "\\timing"],
        usage: "[on|off]",
        argument: SWITCH,
        help: "say how long each statement took",
        run: |client, word| {
            client.timer = parse_switch(word, client.timer)?;
            notify(client, &format!("timer is {}", on_off(client.timer)))
        },
    },
    MetaCommand {
        names: &[".mode", "\\f"],
        usage: "[FORMAT]",
        argument: MODES,
        help: "the form of results: table, csv, json, parquet, arrow, markdown, line",
        run: set_mode,
    },
    MetaCommand {
        names: &["\\x"],
        usage: "[on|off]",
        argument: SWITCH,
        help: "a line a value, as .mode line",
        run: |client, word| {
            let on = parse_switch(word, client.output.format == Some(Format::Line))?;
            client.output.format = on.then_some(Format::Line);
            notify(client, &format!("a line a value is {}", on_off(on)))
        },
    },
    MetaCommand {
        names: &[".maxrows"],
        usage: "[N]",
        argument: Argument::Other,
        help: "how many rows of a table are shown; 0 shows all",
        run: |client, number| {
            if !number.is_empty() {
                client.output.max_rows = parse_number(number)?;
            }
            notify(client, &format!("at most {} rows are shown", client.output.max_rows))
        },
    },
    MetaCommand {
        names: &[".maxwidth"],
        usage: "[N]",
        argument: Argument::Other,
        help: "how wide a table may be; without a number as wide as the terminal",
        run: |client, number| {
            client.output.max_width =
                if number.is_empty() { None } else { Some(parse_number(number)?.max(1)) };
            Ok(Next::Continue)
        },
    },
    MetaCommand {
        names: &[".output", "\\o"],
        usage: "[FILE]",
        argument: Argument::File,
        help: "results go into a file from now on; without one, to the terminal",
        run: |client, path| {
            let target = Target::new((!path.is_empty()).then(|| PathBuf::from(path)));
            client.target = target.interrupted_by(&client.runner.interrupts);
            Ok(Next::Continue)
        },
    },
    MetaCommand {
        names: &[".read", "\\i"],
        usage: "FILE",
        argument: Argument::File,
        help: "run what stands in a file",
        run: |_, path| match path {
            "" => Err(Error::Query(".read takes a file".into())),
            path => Ok(Next::ReadScript(PathBuf::from(path))),
        },
    },
    MetaCommand {
        names: &[".shards"],
        usage: "[N]",
        argument: Argument::Other,
        help: "in how many shards files are read",
        run: |client, number| {
            let shards = if number.is_empty() { None } else { Some(parse_number(number)?.max(1)) };
            client.session.sql.set_shards(shards);
            Ok(Next::Continue)
        },
    },
];

/// Runs a meta-command.
///
/// # Errors
/// `Query` if there is no such command, or its argument is wrong; those of the statement that it runs.
pub fn run(client: &mut Client, line: &str) -> Result<Next> {
    let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let argument = argument.trim().trim_end_matches(';').trim_end();
    match find(name.trim_end_matches(';')) {
        Some(command) => (command.run)(client, unquote_path(command, argument)),
        None => {
            let all: Vec<&str> = names().collect();
            let hint = match nearest(name, &all).first() {
                Some(near) => format!("did you mean {near}?"),
                None => ".help lists them".into(),
            };
            Err(Error::Query(format!("there is no command {name}; {hint}")))
        }
    }
}

/// The argument. The name of a file may be in quotes.
fn unquote_path<'a>(command: &MetaCommand, argument: &'a str) -> &'a str {
    let inner = argument.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    match (command.argument, inner) {
        (Argument::File, Some(inner)) => inner,
        _ => argument,
    }
}

/// The names of all meta-commands.
pub fn names() -> impl Iterator<Item = &'static str> {
    META_COMMANDS.iter().flat_map(|command| command.names.iter().copied())
}

/// The argument of the meta-command at the beginning of a line.
pub fn argument_of(line: &str) -> Argument {
    let name = line.split_whitespace().next().unwrap_or_default();
    find(name).map_or(Argument::Other, |command| command.argument)
}

/// The meta-command of a name.
fn find(name: &str) -> Option<&'static MetaCommand> {
    META_COMMANDS.iter().find(|command| command.names.contains(&name))
}

/// The list of the meta-commands.
fn help() -> String {
    let lines = META_COMMANDS.iter().map(|command| {
        let head = format!("{} {}", command.names.join(" "), command.usage);
        format!("  {head:<30} {}", command.help)
    });
    let lines: Vec<String> = lines.collect();
    format!("{}\nEverything else is SQL and ends with a semicolon.", lines.join("\n"))
}

/// Runs a statement that a meta-command stands for.
fn run_statement(client: &mut Client, sql: &str) -> Result<Next> {
    client.statement(sql).map(|()| Next::Continue)
}

/// Prints a message for a person, and goes on.
fn notify(client: &Client, message: &str) -> Result<Next> {
    client.notify(message);
    Ok(Next::Continue)
}

/// Sets the format of results, and prints it.
fn set_mode(client: &mut Client, word: &str) -> Result<Next> {
    if !word.is_empty() {
        let format = match word {
            // DuckDB's names of the same formats.
            "box" | "duckbox" => Format::Table,
            "jsonlines" => Format::Json,
            word => Format::from_str(word, true).map_err(|_| unknown_mode(word))?,
        };
        client.output.format = Some(format);
    }
    let format = client.target.format(&client.output);
    notify(client, &format!("results are shown as {}", format.name()))
}

/// The error for a format that does not exist.
fn unknown_mode(word: &str) -> Error {
    let all: Vec<&str> = Format::value_variants().iter().map(|format| format.name()).collect();
    let hint = match nearest(word, &all).first() {
        Some(near) => format!("did you mean {near}?"),
        None => format!("there are {}", all.join(", ")),
    };
    Error::Query(format!("there is no mode {word}; {hint}"))
}

/// `on` or `off`; without a word, the opposite of the current state.
fn parse_switch(word: &str, current: bool) -> Result<bool> {
    match word.to_ascii_lowercase().as_str() {
        "" => Ok(!current),
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(Error::Query(format!("it is on or off, not {word}"))),
    }
}

/// The word for the state of a switch.
fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// A number of rows, columns or shards.
fn parse_number(text: &str) -> Result<usize> {
    text.parse().map_err(|_| Error::Query(format!("it is a whole number, not {text}")))
}
