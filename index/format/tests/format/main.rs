//! The package from outside: files in, rows or a message out.

mod bodies;
mod damage;
mod files;
mod jsonl;
mod made;
mod matrices;
mod mutations;
mod npy;
mod parquet;
mod writers;
