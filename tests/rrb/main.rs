//! Tests of the `rrb_` family on the host, as one program: a program per file would link the library as often.

#[path = "../common/mod.rs"]
mod common;

mod behaviour;
mod contract;
mod failures;
mod misuse;
mod no_false_convergence;
mod restarts;
