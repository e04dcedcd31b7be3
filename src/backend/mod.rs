//! Where the arithmetic runs: `steps` names what each family asks for; `reference` has it as plain loops over natural
//! storage (the papers' S1) and is the oracle, `cpu` with one thread (S2) or many (S3), `cuda` on a device. `coarse` is
//! what all solve exactly, `cell_setup` what a team finds of a matrix on boxes of cells, also for a device;
//! `aggregation` is multigrid over any symmetric matrix; `elsewhere` is another rank.

pub mod aggregation;
pub mod cell_setup;
pub mod coarse;
pub mod cpu;
pub mod cuda;
pub mod elsewhere;
pub mod reference;
pub mod residual;
pub mod steps;
pub mod storage;
