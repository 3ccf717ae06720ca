//! Our own function service does what AWS Lambda does. Where AWS's emulator is there (`WHIMBREL_RIE`, see
//! tests/cloud), the same invocations are given to it.

use crate::child::http;
use crate::support::{child, service};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::process::{Child, Command, Stdio};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const TIMEOUT: Duration = Duration::from_secs(2);

/// An answer of the Invoke API.
#[derive(Debug)]
struct Answer {
    status: u16,
    failed: bool,
    log: String,
    body: String,
}

fn invoke(address: &str, name: &str, kind: &str, payload: &str) -> Answer {
    let path = format!("/2015-03-31/functions/{name}/invocations");
    let headers = [("x-amz-log-type", "Tail"), ("x-amz-invocation-type", kind)];
    let (head, body) = http(address, "POST", &path, &headers, payload.as_bytes());
    let header = |name: &str| {
        let line = head.iter().find(|line| line.to_ascii_lowercase().starts_with(name));
        line.and_then(|line| line.split_once(": ")).map(|(_, value)| value.to_string())
    };
    let log = header("x-amz-log-result").map(|log| STANDARD.decode(log).unwrap()).unwrap_or_default();
    Answer {
        status: head[0].split(' ').nth(1).unwrap().parse().unwrap(),
        failed: header("x-amz-function-error").is_some(),
        log: String::from_utf8(log).unwrap(),
        body: String::from_utf8_lossy(&body).into_owned(),
    }
}

fn call(address: &str, payload: &str) -> Answer {
    invoke(address, "f", "RequestResponse", payload)
}

#[test]
fn invocations_are_answered_by_processes_that_stay() {
    let service = service("puppet", 2, TIMEOUT);
    let address = service.address().to_string();
    let first = call(&address, "{\"do\": \"process\"}");
    assert_eq!((first.status, first.failed), (200, false), "{first:?}");
    assert_eq!(call(&address, "{\"do\": \"process\"}").body, first.body);
    assert_eq!(service.processes().iter().map(u32::to_string).collect::<Vec<_>>(), [first.body]);
    assert_eq!(call(&address, "{\"a\": [1, null]}").body, "{\"a\": [1, null]}");
    // The start is billed once.
    assert!(
        first.log.contains("Init Duration:") && first.log.contains("Memory Size: 1024 MB"),
        "{}",
        first.log
    );
    let second = call(&address, "{}").log;
    assert!(second.starts_with("REPORT") && second.contains("Billed Duration:"), "{second}");
    assert!(!second.contains("Init Duration:"), "{second}");
}

#[test]
fn a_deadline_is_a_moment_of_the_clock() {
    let service = service("puppet", 1, TIMEOUT);
    let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let deadline = call(&service.address().to_string(), "{\"do\": \"deadline\"}").body;
    let deadline: u128 = deadline.trim_matches('"').parse().unwrap();
    assert!((before + 1900..before + 20_000).contains(&deadline), "{deadline} from {before}");
}

#[test]
fn errors_of_functions_are_marked_and_their_process_stays() {
    let service = service("puppet", 1, TIMEOUT);
    let address = service.address().to_string();
    let process = call(&address, "{\"do\": \"process\"}").body;
    let failed = call(&address, "{\"do\": \"fail\"}");
    assert_eq!((failed.status, failed.failed), (200, true));
    assert!(failed.body.contains("as asked"), "{failed:?}");
    let large = call(&address, "{\"do\": \"large\", \"bytes\": 7000000}");
    assert!(large.failed && large.body.contains("Function.ResponseSizeTooLarge"), "{large:?}");
    assert_eq!(call(&address, "{\"do\": \"process\"}").body, process);
}

#[test]
fn a_process_that_ends_takes_its_invocation_along() {
    let service = service("puppet", 1, TIMEOUT);
    let address = service.address().to_string();
    let process = call(&address, "{\"do\": \"process\"}").body;
    let ended = call(&address, "{\"do\": \"exit\"}");
    assert!(ended.failed && ended.body.contains("Runtime.ExitError"), "{ended:?}");
    assert_ne!(call(&address, "{\"do\": \"process\"}").body, process);
}

#[test]
fn a_function_that_takes_too_long_is_ended() {
    let service = service("puppet", 1, TIMEOUT);
    let address = service.address().to_string();
    let process = call(&address, "{\"do\": \"process\"}").body;
    let late = call(&address, "{\"do\": \"sleep\", \"ms\": 60000}");
    assert!(late.failed && late.body.contains("timed out"), "{late:?}");
    assert_ne!(call(&address, "{\"do\": \"process\"}").body, process);
}

#[test]
fn memory_is_limited() {
    let service = service("puppet", 1, TIMEOUT);
    let address = service.address().to_string();
    assert_eq!(call(&address, "{\"do\": \"allocate\", \"bytes\": 40960000}").body, "10000");
    let too_much = call(&address, "{\"do\": \"allocate\", \"bytes\": 2000000000}");
    assert!(too_much.failed && too_much.body.contains("Runtime.ExitError"), "{too_much:?}");
}

#[test]
fn no_more_run_at_the_same_time_than_may() {
    let service = service("puppet", 2, Duration::from_secs(30));
    let address = service.address().to_string();
    let sleepers: Vec<_> = (0..2)
        .map(|_| {
            let address = address.clone();
            // The calls below take a place, too.
            spawn(move || while call(&address, "{\"do\": \"sleep\", \"ms\": 3000}").status == 429 {})
        })
        .collect();
    let began = Instant::now();
    while call(&address, "{}").status != 429 {
        assert!(began.elapsed() < Duration::from_secs(30), "both places are taken");
        sleep(Duration::from_millis(20));
    }
    sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
    assert_eq!(call(&address, "{}").status, 200);
}

#[test]
fn what_is_no_invocation_is_refused() {
    let service = service("puppet", 1, TIMEOUT);
    let address = service.address().to_string();
    assert_eq!(call(&address, "no json").status, 400);
    assert_eq!(call(&address, &format!("\"{}\"", "x".repeat(7 << 20))).status, 413);
    assert_eq!(invoke(&address, "another", "RequestResponse", "{}").status, 404);
    assert_eq!(invoke(&address, "f", "DryRun", "{}").status, 204);
    assert_eq!(invoke(&address, "f", "Event", "{}").status, 202);
    assert_eq!(http(&address, "GET", "/", &[], b"").0[0], "HTTP/1.1 404 Not Found");
}

#[test]
fn processes_end_with_their_service() {
    let service = service("puppet", 1, TIMEOUT);
    let process = call(&service.address().to_string(), "{\"do\": \"process\"}").body;
    drop(service);
    let is_there = || {
        let status = std::fs::read_to_string(format!("/proc/{process}/stat"));
        status.is_ok_and(|status| !status.contains(") Z "))
    };
    let began = Instant::now();
    while is_there() {
        assert!(began.elapsed() < Duration::from_secs(60), "process {process} is still there");
        sleep(Duration::from_millis(20));
    }
}

/// AWS's own emulator, which runs one invocation at a time.
struct Emulator {
    process: Child,
    address: String,
}

impl Emulator {
    fn start(program: &str, name: &str) -> Emulator {
        let free =
            || std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().to_string();
        let (address, api) = (free(), free());
        // What the emulator starts is one file.
        let process = Command::new(program)
            .args(["--runtime-interface-emulator-address", &address, "--runtime-api-address", &api])
            .args(child(name))
            .env("AWS_LAMBDA_FUNCTION_TIMEOUT", TIMEOUT.as_secs().to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let began = Instant::now();
        while std::net::TcpStream::connect(&address).is_err() {
            assert!(began.elapsed() < Duration::from_secs(120), "the emulator does not start");
            sleep(Duration::from_millis(20));
        }
        Emulator { process, address }
    }

    fn call(&self, payload: &str) -> Answer {
        invoke(&self.address, "function", "RequestResponse", payload)
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Where the emulator differs from Lambda, it is known how: it marks no errors of functions, and answers 502
/// when a process has ended.
#[test]
fn the_emulator_gives_the_same_answers() {
    let Ok(program) = std::env::var("WHIMBREL_RIE") else {
        eprintln!("skipped: WHIMBREL_RIE is not set; see tests/cloud");
        return;
    };
    let service = service("puppet", 1, TIMEOUT);
    let (own, emulator) = (service.address().to_string(), Emulator::start(&program, "puppet"));
    for payload in ["{}", "{\"a\": [1, null]}", "{\"do\": \"sleep\", \"ms\": 10}", "{\"do\": \"fail\"}"] {
        assert_eq!(call(&own, payload).body, emulator.call(payload).body, "{payload}");
    }
    for (payload, error) in [
        ("{\"do\": \"exit\"}", "Runtime.ExitError"),
        ("{\"do\": \"large\", \"bytes\": 7000000}", "Function.ResponseSizeTooLarge"),
        ("{\"do\": \"sleep\", \"ms\": 60000}", "timed out"),
    ] {
        let (own, theirs) = (call(&own, payload), emulator.call(payload));
        assert!(own.body.contains(error) && theirs.body.contains(error), "{payload}: {own:?}, {theirs:?}");
        assert!(own.failed && (theirs.failed || theirs.status == 502 || theirs.status == 200), "{theirs:?}");
    }
    // Both go on.
    assert_eq!(call(&own, "{}").body, emulator.call("{}").body);
}
