//! Tests of the `dpcg_` family on the host, as one program: a program per file would link the library as often.

#[path = "../common/mod.rs"]
mod common;

mod contract;
mod fused;
mod misuse;
