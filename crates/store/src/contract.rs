//! The suite that every engine passes: the rules that callers rely on, as tests.
//!
//! An engine passes a function that creates an empty place and returns a way to open it. Opening the place again after
//! dropping the store is a restart.

mod arrays;
mod bulk;
pub(crate) mod damage;
mod harness;
pub(crate) mod kill;
mod model;
mod pages;
mod rows;

pub(crate) use harness::{NUMBERS, Open, PARTS, PLAIN, TABLES, all, get, put_all, row};
pub(crate) use model::{Operation, agree, operations};

/// Runs every case, each in a place of its own.
pub(crate) fn run(make: &dyn Fn() -> Box<Open>) {
    for cases in [rows::CASES, pages::CASES, bulk::CASES, arrays::CASES] {
        for (name, case) in cases {
            println!("{name}");
            case(&*make());
        }
    }
}
