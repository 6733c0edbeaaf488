//! Questions and answers are plain data: they travel as text and mean the same at the other end.

#![allow(clippy::unwrap_used)] // a test's helpers are tests too

mod common;

use common::awkward_matrix;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sparse_nnls::{Batch, Candidate, Dictionary, OwnedQuery, Query, Ranking, Score, Sum};

/// What arrives elsewhere.
fn sent<T: DeserializeOwned>(what: &impl Serialize) -> T {
    serde_json::from_str(&serde_json::to_string(what).unwrap()).unwrap()
}

#[test]
fn a_query_that_travelled_brings_the_same_answer() {
    let phi = awkward_matrix(3, 700, 12).dense();
    let sum: Sum = sent(&phi.sum().unwrap());
    assert_eq!(sum, phi.sum().unwrap());
    let unit: Vec<f64> = (0..12).map(|i| if i == 4 { 1.0 } else { 0.0 }).collect();
    let ranking = |score| Ranking { score, count: 9 };
    let rankings = [Score::Raw, Score::Absolute, Score::NormScaled, Score::Geodesic, Score::Race { seed: 5 }];
    let rankings = rankings.map(ranking);
    for batch in [None, Some(Batch { seed: u64::MAX, fraction: 0.3 })] {
        let query = Query { vectors: &[&sum.vector, &unit], rankings: &rankings, exclude: &[2, 77], batch };
        let mut expected = vec![Vec::new(); rankings.len()];
        phi.top(&query, &mut expected).unwrap();
        let answers = sent::<OwnedQuery>(&query).ask(&phi).unwrap();
        assert_eq!(answers, expected);
        assert_eq!(sent::<Vec<Vec<Candidate>>>(&answers), expected);
    }
}
