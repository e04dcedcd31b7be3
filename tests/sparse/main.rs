//! Tests of the `sparse_` family, as one program: a program per file would link the library as often.

#[path = "../common/mod.rs"]
mod common;

mod files;
mod formats;
mod methods;
mod misuse;
mod orderings;
mod steepest_descent;
