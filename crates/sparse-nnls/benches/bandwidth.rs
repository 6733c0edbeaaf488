//! A pass of the dense dictionary against the read bandwidth of the machine, in one run.
//!
//! `cargo bench -p sparse-nnls --bench bandwidth`
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::hint::black_box;
use std::time::Instant;

use rayon::prelude::*;
use sparse_nnls::{Dense, Dictionary, Element, Query, Ranking, Score};

const COORDINATES: usize = 500;
const ROUNDS: usize = 7;

/// The best of several runs, in seconds: on a shared machine the fastest is the least disturbed.
fn fastest(mut work: impl FnMut()) -> f64 {
    (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min)
}

/// Reads all of it and does next to nothing: the floor. Integer sums, which the compiler vectorises freely.
fn read(words: &[u64]) -> u64 {
    words
        .par_chunks(1 << 16)
        .map(|chunk| {
            chunk.as_chunks::<64>().0.iter().fold([0_u64; 64], |mut sums, words| {
                sums.iter_mut().zip(words).for_each(|(sum, word)| *sum ^= word);
                sums
            })
        })
        .map(|sums| sums.iter().fold(0, |a, b| a ^ b))
        .reduce(|| 0, |a, b| a ^ b)
}

fn report<E: Element>(name: &str, columns: usize, make: impl Fn(usize) -> E + Sync)
where
    Dense<E>: Dictionary,
{
    let bytes = (columns * COORDINATES * size_of::<E>()) as f64;
    let words: Vec<u64> = (0..(bytes / 8.0) as u64).collect();
    let floor = fastest(|| {
        black_box(read(&words));
    });
    drop(words);
    let entries: Vec<E> = (0..columns * COORDINATES).into_par_iter().map(&make).collect();
    let phi = Dense::new(entries, COORDINATES).unwrap();
    let vector: Vec<f64> = (0..COORDINATES).map(|i| ((i * 37 % 101) as f64 - 50.0) / 50.0).collect();
    let rankings = [Ranking { score: Score::NormScaled, count: 1000 }];
    let query = Query { vectors: &[&vector], rankings: &rankings, exclude: &[], batch: None };
    let mut answers = [Vec::new()];
    let pass = fastest(|| phi.top(&query, &mut answers).unwrap());
    let rate = |seconds: f64| bytes / seconds / 1e9;
    println!(
        "{name}: {columns} columns of {COORDINATES}, {:.2} GB: read {:.1} GB/s, top {:.1} GB/s, {:.0} % of it",
        bytes / 1e9,
        rate(floor),
        rate(pass),
        100.0 * floor / pass
    );
}

fn main() {
    println!("{} threads", rayon::current_num_threads());
    let noise = |i: usize| (i.wrapping_mul(0x9e37_79b9) >> 7 & 0xffff) as f64 / 65_536.0 - 0.5;
    report("f32", 400_000, |i| noise(i) as f32);
    report("f64", 200_000, noise);
}
