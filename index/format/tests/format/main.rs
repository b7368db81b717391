//! The package from outside: files in, rows or a message out.

mod files;
mod damage;
mod jsonl;
mod made;
mod npy;
mod parquet;
