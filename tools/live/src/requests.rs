//! HTTP requests: the page, the WebSocket, and refusals.
//!
//! A page of another site can send requests to 127.0.0.1, directly or through a host name that it controls (DNS
//! rebinding). Requests with another Host or Origin than the server's own are refused.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tungstenite::handshake::derive_accept_key;

use crate::pages::is_timeout;

/// The page, with scripts and styles.
const PAGE: &str = include_str!("page.html");
/// Maximum length of a request in bytes.
const REQUEST_LIMIT: usize = 8192;
/// Maximum number of header fields.
const FIELD_LIMIT: usize = 64;

/// An accepted request.
#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    /// The page.
    Page,
    /// A WebSocket with the client's key.
    Socket(String),
}

/// A refused request: HTTP status and reason.
pub type Refusal = (&'static str, &'static str);

/// Reads a request up to its empty line. Returns the request and the bytes that follow, or `None` if the client sends
/// nothing: browsers open connections in advance. The whole request must arrive within `patience`, so that a client
/// that sends single bytes does not occupy a connection.
pub fn read_request(stream: &mut TcpStream, patience: Duration) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
    let deadline = Instant::now() + patience;
    let mut request = Vec::new();
    let mut part = [0; 1024];
    loop {
        if let Some(end) = request.windows(4).position(|window| window == b"\r\n\r\n") {
            let rest = request.split_off(end + 4);
            return Ok(Some((request, rest)));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let count = match stream.set_read_timeout(Some(left)).and_then(|()| stream.read(&mut part)) {
            Ok(count) => count,
            Err(_) if deadline <= Instant::now() => 0,
            Err(error) if is_timeout(&error) => continue,
            Err(error) => return Err(error),
        };
        if count == 0 && request.is_empty() {
            return Ok(None);
        }
        if count == 0 || request.len() > REQUEST_LIMIT {
            return Err(io::Error::new(ErrorKind::InvalidData, "it sent no complete HTTP request"));
        }
        request.extend_from_slice(&part[..count]);
    }
}

/// Accepts or refuses a request to the server at `port`.
pub fn accept(request: &[u8], port: u16) -> Result<Request, Refusal> {
    let mut fields = [httparse::EMPTY_HEADER; FIELD_LIMIT];
    let mut parsed = httparse::Request::new(&mut fields);
    if !parsed.parse(request).is_ok_and(|status| status.is_complete()) {
        return Err(("400 Bad Request", "this is no HTTP request"));
    }
    let field =
        |name: &str| parsed.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value);
    let mut hosts = vec![format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    if port == 80 {
        // Browsers omit the default port of HTTP.
        hosts.extend(["127.0.0.1".to_string(), "localhost".to_string()]);
    }
    if !field("Host").is_some_and(|host| hosts.iter().any(|own| own.as_bytes() == host)) {
        return Err(("403 Forbidden", "Host must be 127.0.0.1 or localhost, with the port of this server"));
    }
    let own_origin = |origin: &[u8]| hosts.iter().any(|own| origin.strip_prefix(b"http://") == Some(own.as_bytes()));
    if field("Origin").is_some_and(|origin| !own_origin(origin)) {
        return Err(("403 Forbidden", "Origin must be a page of this server"));
    }
    match (parsed.method, parsed.path) {
        (Some("GET"), Some("/")) => Ok(Request::Page),
        (Some("GET"), Some("/frames")) => match field("Sec-WebSocket-Key") {
            Some(key) => Ok(Request::Socket(String::from_utf8_lossy(key).into_owned())),
            None => Err(("400 Bad Request", "/frames is a WebSocket")),
        },
        (Some("GET"), _) => Err(("404 Not Found", "this server has the pages / and /frames")),
        _ => Err(("405 Method Not Allowed", "the method must be GET")),
    }
}

/// Sends the page. Its policy allows no connection but to this server.
pub fn send_page(stream: &mut TcpStream, port: u16) -> io::Result<()> {
    let policy = format!(
        "Content-Security-Policy: default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src \
         'unsafe-inline'; connect-src ws://127.0.0.1:{port} ws://localhost:{port}; frame-ancestors 'none'\r\n"
    );
    respond(stream, "200 OK", "text/html; charset=utf-8", &policy, PAGE)
}

/// Sends a refusal.
pub fn send_refusal(stream: &mut TcpStream, (status, reason): Refusal) -> io::Result<()> {
    respond(stream, status, "text/plain; charset=utf-8", "", &format!("{reason}\n"))
}

/// Completes the handshake of a WebSocket (RFC 6455, section 4.2.2).
pub fn send_upgrade(stream: &mut TcpStream, key: &str) -> io::Result<()> {
    let accept = derive_accept_key(key.as_bytes());
    write!(
        stream,
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\n\r\n"
    )
}

fn respond(stream: &mut TcpStream, status: &str, kind: &str, fields: &str, body: &str) -> io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\n{fields}Connection: close\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(request: &str) -> &'static str {
        accept(request.as_bytes(), 8765).expect_err(request).0
    }

    #[test]
    fn own_pages_are_accepted() {
        for host in ["127.0.0.1:8765", "localhost:8765"] {
            assert_eq!(accept(format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n").as_bytes(), 8765), Ok(Request::Page));
        }
        let socket = "GET /frames HTTP/1.1\r\nHost: localhost:8765\r\nOrigin: http://localhost:8765\r\n\
                      Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        assert_eq!(accept(socket.as_bytes(), 8765), Ok(Request::Socket("dGhlIHNhbXBsZSBub25jZQ==".to_string())));
    }

    #[test]
    fn the_default_port_is_omitted() {
        for host in ["127.0.0.1", "localhost", "127.0.0.1:80", "localhost:80"] {
            let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n\r\n");
            assert_eq!(accept(request.as_bytes(), 80), Ok(Request::Page), "{host}");
            assert_eq!(accept(request.as_bytes(), 8080).unwrap_err().0, "403 Forbidden", "{host}");
        }
        assert_eq!(accept(b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 80).unwrap_err().0, "403 Forbidden");
    }

    #[test]
    fn other_hosts_and_origins_are_forbidden() {
        for host in ["127.0.0.1:80", "127.0.0.1", "evil.example:8765", ""] {
            assert_eq!(status(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")), "403 Forbidden", "{host}");
        }
        assert_eq!(status("GET / HTTP/1.1\r\n\r\n"), "403 Forbidden");
        for origin in ["http://evil.example", "https://127.0.0.1:8765", "null", "http://127.0.0.1:8766"] {
            let request = format!("GET /frames HTTP/1.1\r\nHost: 127.0.0.1:8765\r\nOrigin: {origin}\r\n\r\n");
            assert_eq!(status(&request), "403 Forbidden", "{origin}");
        }
        let request =
            b"GET /frames HTTP/1.1\r\nHost: 127.0.0.1:8765\r\nOrigin: http://\xff\r\nSec-WebSocket-Key: a\r\n\r\n";
        assert_eq!(accept(request, 8765).unwrap_err().0, "403 Forbidden");
    }

    #[test]
    fn other_requests_are_refused() {
        let host = "Host: 127.0.0.1:8765\r\n\r\n";
        assert_eq!(status(&format!("GET /other HTTP/1.1\r\n{host}")), "404 Not Found");
        assert_eq!(status(&format!("POST / HTTP/1.1\r\n{host}")), "405 Method Not Allowed");
        assert_eq!(status(&format!("GET /frames HTTP/1.1\r\n{host}")), "400 Bad Request");
        assert_eq!(status("hello\r\n\r\n"), "400 Bad Request");
    }
}
