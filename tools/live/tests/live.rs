//! The server between a simulator, of which the tests hold both ends, and its clients.

use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use rrbsolver_live::Server;
use tungstenite::{Message, WebSocket, client};

/// A simulator, and a server of its frames.
struct Simulator {
    output: PipeWriter,
    commands: BufReader<PipeReader>,
    server: Server,
}

impl Simulator {
    fn start() -> Self {
        let (frames, output) = io::pipe().unwrap();
        let (commands, input) = io::pipe().unwrap();
        let server = Server::start(Server::listen(0).unwrap(), frames, input).unwrap();
        Self { output, commands: BufReader::new(commands), server }
    }

    fn write_frame(&mut self, json: &str, heights: &[u8]) {
        writeln!(self.output, "frame {} {json}", heights.len()).unwrap();
        self.output.write_all(heights).unwrap();
    }

    fn request(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.server.port())).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    fn page(&self) -> WebSocket<TcpStream> {
        let port = self.server.port();
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        client(format!("ws://127.0.0.1:{port}/frames"), stream).unwrap().0
    }

    fn command(&mut self) -> String {
        let mut line = String::new();
        self.commands.read_line(&mut line).unwrap();
        line
    }
}

fn receive(page: &mut WebSocket<TcpStream>) -> Vec<u8> {
    loop {
        match page.read() {
            Ok(Message::Binary(bytes)) => return bytes.to_vec(),
            // A system that pauses the process interrupts calls that have a time limit.
            Err(tungstenite::Error::Io(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_page_is_served_to_this_machine_only() {
    let simulator = Simulator::start();
    let port = simulator.server.port();
    let page = simulator.request(&format!("GET / HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n"));
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.contains("<canvas"), "{page}");
    // The page needs no network: it names no other server.
    assert!(!page.contains("https:") && !page.contains("http:"), "{page}");
    for request in [
        format!("GET / HTTP/1.1\r\nHost: evil.example:{port}\r\n\r\n"),
        format!(
            "GET /frames HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://evil.example\r\n\
             Sec-WebSocket-Key: a\r\n\r\n"
        ),
    ] {
        let answer = simulator.request(&request);
        assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
    }
}

#[test]
fn frames_and_commands_arrive() {
    let mut simulator = Simulator::start();
    let mut page = simulator.page();
    simulator.write_frame("{\"t\":1.5}", &[1, 0, 2, 0]);
    assert_eq!(receive(&mut page), b"\x0c\0\0\0{\"t\":1.5}   \x01\0\x02\0");
    page.send(Message::text("rudder 1 -5")).unwrap();
    assert_eq!(simulator.command(), "rudder 1 -5\n");
    // One command must not become two.
    page.send(Message::text("pause on\nspeed 1 99")).unwrap();
    page.send(Message::text("pause off")).unwrap();
    assert_eq!(simulator.command(), "pause off\n");
}

#[test]
fn a_command_is_answered_within_the_time_of_a_frame() {
    let mut simulator = Simulator::start();
    let mut page = simulator.page();
    // Other programs may take the processor for some time, so the shortest of several times decides.
    let mut shortest = Duration::MAX;
    for _ in 0..10 {
        let start = Instant::now();
        page.send(Message::text("rudder 1 5")).unwrap();
        simulator.command();
        simulator.write_frame("{}", &[0; 64]);
        receive(&mut page);
        shortest = shortest.min(start.elapsed());
    }
    // The server adds two waits of 5 ms.
    assert!(shortest < Duration::from_millis(150), "{shortest:?}");
}

#[test]
fn a_slow_page_receives_the_newest_frame_and_delays_nobody() {
    // Few enough to be written within the 5 s after which the server closes a connection that receives nothing.
    const FRAMES: u32 = 60;
    let mut simulator = Simulator::start();
    let mut slow = simulator.page();
    let mut quick = simulator.page();
    let heights = vec![7; 1 << 20];
    for number in 0..FRAMES {
        simulator.write_frame(&format!("{{\"number\":{number:06}}}"), &heights);
    }
    let number = |message: Vec<u8>| String::from_utf8(message[14..20].to_vec()).unwrap().parse::<u32>().unwrap();
    let last = |page: &mut WebSocket<TcpStream>| {
        let mut count = 1;
        while number(receive(page)) != FRAMES - 1 {
            count += 1;
        }
        count
    };
    last(&mut quick);
    // The system buffers a few MB of a connection: the slow page has skipped the frames between.
    assert!(last(&mut slow) < FRAMES / 2);
}

#[test]
fn clients_that_vanish_or_send_garbage_end_alone() {
    let mut simulator = Simulator::start();
    let mut page = simulator.page();
    drop(simulator.page());
    // Ends with an error or a message that closes the connection; frames may arrive before.
    let end = |mut page: WebSocket<TcpStream>| loop {
        match page.read() {
            Ok(Message::Close(_)) => break,
            Ok(_) => {}
            Err(tungstenite::Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                panic!("it is still open")
            }
            Err(_) => break,
        }
    };
    let mut garbage = simulator.page();
    garbage.get_mut().write_all(&[0xff; 100]).unwrap();
    let mut long = simulator.page();
    long.send(Message::text("x".repeat(10_000))).unwrap();
    for number in 0..3 {
        simulator.write_frame(&format!("{{\"t\":{number}}}"), &[]);
        assert_eq!(receive(&mut page)[9], b'0' + number);
    }
    end(garbage);
    end(long);
    page.send(Message::text("pause on")).unwrap();
    assert_eq!(simulator.command(), "pause on\n");
}

#[test]
fn a_request_that_arrives_slowly_is_ended() {
    let mut simulator = Simulator::start();
    let mut half = TcpStream::connect(("127.0.0.1", simulator.server.port())).unwrap();
    half.write_all(b"GET / HTTP/1.1\r\nHost: ").unwrap();
    let mut page = simulator.page();
    simulator.write_frame("{}", &[]);
    receive(&mut page);
    let start = Instant::now();
    while half.write_all(b"x").is_ok() {
        assert!(start.elapsed() < Duration::from_secs(60), "a byte now and then keeps the connection open");
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn too_many_connections_are_refused() {
    let simulator = Simulator::start();
    let port = simulator.server.port();
    let idle: Vec<_> = (0..32).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    let mut answer = String::new();
    TcpStream::connect(("127.0.0.1", port)).unwrap().read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{answer}");
    drop(idle);
    // Requests are answered again as soon as the server has seen the ends of these connections.
    let start = Instant::now();
    let mut served = false;
    while !served {
        assert!(start.elapsed() < Duration::from_secs(60), "the server still refuses connections");
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let mut answer = Vec::new();
        // A refusal may close the connection before the request is sent.
        served = write!(stream, "GET / HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n")
            .and_then(|()| stream.read_to_end(&mut answer))
            .is_ok_and(|_| answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
    }
}

#[test]
fn the_end_of_the_simulation_ends_pages_and_server() {
    let mut simulator = Simulator::start();
    let mut page = simulator.page();
    simulator.write_frame("{}", &[]);
    receive(&mut page);
    drop(simulator.output);
    simulator.server.wait().unwrap();
    assert!(matches!(page.read(), Ok(Message::Close(_))));
}

#[test]
fn output_that_is_no_frame_is_an_error() {
    let mut simulator = Simulator::start();
    simulator.output.write_all(b"step 12 of 700\n").unwrap();
    let error = simulator.server.wait().unwrap_err().to_string();
    assert!(error.contains("\"step 12 of 700\""), "{error}");
}

#[test]
fn a_port_in_use_is_an_error() {
    let taken = Server::listen(0).unwrap();
    let port = taken.local_addr().unwrap().port();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_rrbsolver-live"))
        .args(["--port", &port.to_string(), "true"])
        .output()
        .unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && message.contains(&format!("port {port}")), "{message}");
}
