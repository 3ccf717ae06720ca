//! What the processes of functions run: a function of queries, and one that does what its payload says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use whimbrel_session::PlanReferences;

#[test]
#[ignore = "it is the function of other tests"]
fn function() {
    if std::env::var_os("AWS_LAMBDA_RUNTIME_API").is_some() {
        let error = whimbrel_functions::serve(Arc::new(PlanReferences)).unwrap_err();
        eprintln!("{error}");
    }
}

/// A function of the Runtime API in a few lines, so that services are tested by something else than our own
/// client. The payload `{"do": …}` says what it does.
#[test]
#[ignore = "it is the function of other tests"]
fn puppet() {
    let Ok(api) = std::env::var("AWS_LAMBDA_RUNTIME_API") else { return };
    loop {
        let (head, body) = request(&api, "GET", "invocation/next", "");
        let header = |name: &str| {
            let line = head.iter().find(|line| line.to_ascii_lowercase().starts_with(name));
            line.and_then(|line| line.split_once(": ")).map(|(_, value)| value.to_string())
        };
        let id = header("lambda-runtime-aws-request-id").expect("an invocation has a name");
        let deadline = header("lambda-runtime-deadline-ms").expect("an invocation has a deadline");
        let payload: serde_json::Value = serde_json::from_str(&body).unwrap();
        let number = |name: &str| payload[name].as_u64().unwrap_or_default();
        let answer = match payload["do"].as_str() {
            Some("sleep") => {
                std::thread::sleep(Duration::from_millis(number("ms")));
                "\"slept\"".to_string()
            }
            Some("exit") => std::process::exit(3),
            Some("large") => format!("\"{}\"", "x".repeat(number("bytes") as usize)),
            Some("allocate") => {
                let bytes = vec![1_u8; number("bytes") as usize];
                format!("{}", bytes.iter().step_by(4096).map(|byte| u64::from(*byte)).sum::<u64>())
            }
            Some("deadline") => format!("\"{deadline}\""),
            Some("process") => std::process::id().to_string(),
            Some("fail") => {
                let error = "{\"errorType\": \"Wrong\", \"errorMessage\": \"as asked\"}";
                request(&api, "POST", &format!("invocation/{id}/error"), error);
                continue;
            }
            _ => body,
        };
        request(&api, "POST", &format!("invocation/{id}/response"), &answer);
    }
}

fn request(api: &str, method: &str, path: &str, body: &str) -> (Vec<String>, String) {
    let (head, body) = http(api, method, &format!("/2018-06-01/runtime/{path}"), &[], body.as_bytes());
    (head, String::from_utf8(body).unwrap())
}

/// One HTTP request; the lines of the head, and the body of the answer.
pub fn http(
    address: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> (Vec<String>, Vec<u8>) {
    let mut stream = TcpStream::connect(address).unwrap();
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    // A server may refuse a body before it has read all of it.
    let _ = stream.write_all(body);
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim_end() {
            "" => break,
            text => lines.push(text.to_string()),
        }
    }
    let mut body = Vec::new();
    reader.read_to_end(&mut body).unwrap();
    (lines, body)
}
