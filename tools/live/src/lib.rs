//! Live view of a running simulator in a browser.
//!
//! The simulator writes frames to its standard output ([`frames`]) and reads commands from its standard input, a line
//! each. The server sends the newest frame to each page that is open, and forwards the commands of the pages. It
//! listens on 127.0.0.1 only, and answers only requests from this machine's own pages ([`requests`]).

pub mod frames;
pub mod requests;

mod pages;
mod server;

pub use server::Server;
