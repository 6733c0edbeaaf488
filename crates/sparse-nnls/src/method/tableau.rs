//! Non-negative least squares on a support that grows and shrinks inside a pool, by inner products alone.
//!
//! The twin of [`SupportFit`](crate::SupportFit) for a search: R of the support's columns A = QR is known from their inner products, and
//! with it what every other column of the pool would add. A step costs a coefficient a column and support point, not
//! a coordinate. The price is accuracy: squares lose half the digits, so that columns closer than [`LEAST_HEIGHT`] to the span
//! of the support are not admitted, and residuals below a millionth of y are left to the factorisation proper.

use crate::elimination::Elimination;
use crate::kernel::{axpy, dot, norm, rotate, solve_triangle};
use crate::method::gram::Gram;
use crate::method::tiles::{Change, Tiles};

/// Heights (squared, of unit columns) below this are taken as dependence on the support.
pub(super) const LEAST_HEIGHT: f64 = 1e-10;

/// A fall of the squared residual by less than this share of it is rounding.
const LEAST_FALL: f64 = 2e-9;

/// Gains that differ by less than this share are the same.
const TIED: f64 = 1e-9;

/// Unit columns with a product above this could stand in for each other.
const ALIKE: f64 = 1.0 - 1e-6;

/// Numbers in the tiles from which changes are first applied to a panel of the most promising columns alone.
const BLOCKED: usize = 1 << 19;

/// Columns in a panel, and changes after which the others are brought up to date.
const PANEL: usize = 64;
const CHANGES: usize = 16;

/// A support inside a pool.
#[derive(Debug, Clone)]
pub(super) struct Tableau {
    capacity: usize,
    /// All columns of the pool, as they were before the changes that are pending.
    pool: Tiles,
    /// The most promising columns, up to date; none where changes are applied to the pool at once.
    panel: Option<Tiles>,
    pending: Vec<Change>,
    /// The columns of the support, by their place in the pool.
    support: Vec<usize>,
    /// Which columns may not enter: those of the support, and those that were refused.
    barred: Vec<bool>,
    weights: Vec<f64>,
    /// R by rows, `capacity` apart.
    triangle: Vec<f64>,
    /// Qᵀy.
    shares: Vec<f64>,
    /// ‖r‖².
    squared: f64,
    solution: Vec<f64>,
}

impl Tableau {
    /// The empty support, with room for `capacity` columns.
    pub(super) fn new(gram: &Gram, target_norm: f64, capacity: usize) -> Self {
        Self {
            capacity,
            pool: Tiles::new(gram, capacity),
            panel: None,
            pending: Vec::new(),
            support: Vec::new(),
            barred: vec![false; gram.len()],
            weights: Vec::new(),
            triangle: vec![0.0; capacity * capacity],
            shares: Vec::new(),
            squared: target_norm * target_norm,
            solution: Vec::new(),
        }
    }

    /// Takes note of columns that have joined the pool: those of the support enter for them alone. Nothing may be pending.
    pub(super) fn extend(&mut self, gram: &mut Gram) {
        if self.is_empty() {
            self.pool = Tiles::new(gram, self.capacity);
            self.barred.resize(gram.len(), false);
            return;
        }
        gram.ask(&self.support);
        let stride = self.capacity;
        let entry = |(place, &column): (usize, &usize)| Change::Enter {
            column,
            coefficients: (0..place).map(|i| self.triangle[i * stride + place]).collect(),
            height: self.triangle[place * stride + place],
            share: self.shares[place],
        };
        let entries: Vec<Change> = self.support.iter().enumerate().map(entry).collect();
        self.pool.extend(self.barred.len(), &entries, gram);
        self.barred.resize(gram.len(), false);
    }

    /// Becomes a copy of another, with the memory it has.
    pub(super) fn copy_from(&mut self, other: &Self) {
        let size = other.len();
        self.capacity = other.capacity;
        self.pool.copy_from(&other.pool, size);
        self.panel.clone_from(&other.panel);
        self.pending.clone_from(&other.pending);
        self.support.clone_from(&other.support);
        self.barred.clone_from(&other.barred);
        self.weights.clone_from(&other.weights);
        self.shares.clone_from(&other.shares);
        self.squared = other.squared;
        if self.triangle.len() != other.triangle.len() {
            self.triangle = vec![0.0; other.triangle.len()];
        }
        for (to, from) in
            self.triangle.chunks_mut(self.capacity).zip(other.triangle.chunks(self.capacity)).take(size)
        {
            to[..size].copy_from_slice(&from[..size]);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.support.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.support.is_empty()
    }

    pub(super) fn support(&self) -> &[usize] {
        &self.support
    }

    /// The weights on unit columns.
    pub(super) fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// ‖r‖.
    pub(super) fn residual_norm(&self) -> f64 {
        self.squared.max(0.0).sqrt()
    }

    fn row(&self, i: usize) -> &[f64] {
        &self.triangle[i * self.capacity + i..i * self.capacity + self.len()]
    }

    /// Deletion of columns of the support, one at a time.
    pub(super) fn elimination(&self) -> Elimination {
        Elimination::new(&self.weights, |i| self.row(i))
    }

    /// The open column whose entry would lower the residual most, by its place in the panel, or else the pool; about `room` are to
    /// enter.
    pub(super) fn best(&mut self, gram: &mut Gram, room: usize) -> Option<usize> {
        if self.barred.len() * self.len() < BLOCKED {
            self.bring_up_to_date(gram);
            let (best, column) = self.best_of(&self.pool)?;
            self.ask(column, &self.pool, room, gram);
            return Some(best);
        }
        if self.panel.is_none() || self.pending.len() >= CHANGES {
            self.bring_up_to_date(gram);
            let promising = self.promising(&self.pool, PANEL);
            self.panel = Some(self.pool.some(&promising, self.len()));
        }
        let found = self.panel.as_ref().and_then(|panel| Some((panel, self.best_of(panel)?)));
        match found {
            Some((panel, (at, column))) => {
                self.ask(column, panel, room, gram);
                Some(at)
            }
            None if self.pending.is_empty() => None,
            None => {
                self.bring_up_to_date(gram);
                self.best(gram, room)
            }
        }
    }

    /// Asks for the products of a column, and with them for those of others that may enter next.
    fn ask(&self, column: usize, tiles: &Tiles, room: usize, gram: &mut Gram) {
        if !gram.knows(column) {
            let mut asked = self.promising(tiles, gram.worth_asking(room));
            if !asked.contains(&column) {
                asked.push(column);
            }
            gram.ask(&asked);
        }
    }

    fn gain(tiles: &Tiles, at: usize) -> f64 {
        let correlation = tiles.correlation(at);
        if correlation > 0.0 && tiles.height(at) > LEAST_HEIGHT {
            correlation * correlation / tiles.height(at)
        } else {
            0.0
        }
    }

    /// The columns that may enter and would lower the residual, with their places and gains.
    fn open<'a>(&'a self, tiles: &'a Tiles) -> impl Iterator<Item = (f64, usize, usize)> + 'a {
        let open = tiles.columns().filter(|&(_, column)| self.barred.get(column) == Some(&false));
        open.map(|(at, column)| (Self::gain(tiles, at), at, column))
            .filter(|open| open.0 > LEAST_FALL * self.squared)
    }

    /// Place and column of the best. Where the support lacks one direction to span everything, all columns would bring the same:
    /// of those that tie but for rounding it is the one farthest from the span.
    fn best_of(&self, tiles: &Tiles) -> Option<(usize, usize)> {
        let mut best: Option<(f64, usize, usize)> = None;
        for open in self.open(tiles) {
            let better = best.is_none_or(|(most, at, _)| {
                let tied = (1.0 - TIED) * most <= open.0 && (1.0 - TIED) * open.0 <= most;
                if tied { tiles.height(open.1) > tiles.height(at) } else { open.0 > most }
            });
            if better {
                best = Some(open);
            }
        }
        best.map(|(_, at, column)| (at, column))
    }

    /// The columns that would lower the residual most, best first.
    fn promising(&self, tiles: &Tiles, count: usize) -> Vec<usize> {
        let mut open: Vec<(f64, usize)> = self.open(tiles).map(|(gain, _, column)| (gain, column)).collect();
        let order = |a: &(f64, usize), b: &(f64, usize)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        if open.len() > count {
            open.select_nth_unstable_by(count, order);
            open.truncate(count);
        }
        open.sort_unstable_by(order);
        open.into_iter().map(|pair| pair.1).collect()
    }

    /// Applies what is pending to the whole pool.
    pub(super) fn bring_up_to_date(&mut self, gram: &Gram) {
        self.panel = None;
        let pending = std::mem::take(&mut self.pending);
        self.pool.apply(&pending, gram);
    }

    fn change(&mut self, change: Change, gram: &Gram) {
        match &mut self.panel {
            Some(panel) => {
                panel.apply(std::slice::from_ref(&change), gram);
                self.pending.push(change);
            }
            None => self.pool.apply(&[change], gram),
        }
    }

    /// Puts the column that [`best`](Self::best) found into the support and solves. False if the residual did not fall.
    pub(super) fn enter(&mut self, at: usize, gram: &Gram) -> bool {
        let before = self.squared;
        let front = self.panel.as_ref().unwrap_or(&self.pool);
        let column = front.columns().nth(at).map_or(at, |pair| pair.1);
        let (coefficients, correlation) = (front.coefficients(at, self.len()), front.correlation(at));
        self.barred[column] = true;
        if !self.push(column, coefficients, correlation, gram) {
            return false;
        }
        let removed = self.reoptimise(gram);
        let fell = self.squared < before * (1.0 - LEAST_FALL);
        if fell && removed {
            // What was thrown out may come back now that something has changed; without a fall it could come back for ever.
            self.unbar();
            self.barred[column] = true;
        }
        fell
    }

    /// Puts a column of the pool into the support and solves.
    pub(super) fn enter_column(&mut self, column: usize, gram: &mut Gram) -> bool {
        gram.ask(&[column]);
        self.bring_up_to_date(gram);
        self.enter(column, gram)
    }

    /// Keeps columns that were in a support, and their likes, from entering until all are opened again.
    pub(super) fn bar(&mut self, columns: &[usize], gram: &Gram) {
        for &column in columns {
            let likes = gram.row(column).iter().map(|&product| product > ALIKE);
            self.barred.iter_mut().zip(likes).for_each(|(barred, like)| *barred |= like);
        }
    }

    /// Opens every column outside the support.
    pub(super) fn unbar(&mut self) {
        self.barred.fill(false);
        for &column in &self.support {
            self.barred[column] = true;
        }
    }

    fn push(&mut self, column: usize, coefficients: Vec<f64>, correlation: f64, gram: &Gram) -> bool {
        let Some(change) = self.append(column, coefficients, correlation) else { return false };
        self.change(change, gram);
        true
    }

    /// Adds a column with weight zero to R, given its coefficients in Q: what the pool has to be told. None, and nothing
    /// changed, where it depends on the support.
    fn append(&mut self, column: usize, coefficients: Vec<f64>, correlation: f64) -> Option<Change> {
        let squared_height = 1.0 - dot(&coefficients, &coefficients);
        let (size, stride) = (self.len(), self.capacity);
        if squared_height <= LEAST_HEIGHT || size == stride {
            return None;
        }
        let height = squared_height.sqrt();
        let share = correlation / height;
        for (i, &coefficient) in coefficients.iter().enumerate() {
            self.triangle[i * stride + size] = coefficient;
        }
        self.triangle[size * stride + size] = height;
        self.support.push(column);
        self.weights.push(0.0);
        self.shares.push(share);
        self.squared -= share * share;
        Some(Change::Enter { column, coefficients, height, share })
    }

    fn remove(&mut self, place: usize, gram: &Gram) {
        let (size, stride) = (self.len(), self.capacity);
        for i in 0..size {
            self.triangle[i * stride..(i + 1) * stride].copy_within(place + 1..size, place);
        }
        let mut rotations = Vec::with_capacity(size - place - 1);
        for i in place..size - 1 {
            let (upper, lower) = self.triangle.split_at_mut((i + 1) * stride);
            let (upper, lower) = (&mut upper[i * stride + i..i * stride + size - 1], &mut lower[i..size - 1]);
            let length = upper[0].hypot(lower[0]);
            let (c, s) = if length > 0.0 { (upper[0] / length, lower[0] / length) } else { (1.0, 0.0) };
            rotate(c, s, upper, lower);
            let (p, q) = (self.shares[i], self.shares[i + 1]);
            (self.shares[i], self.shares[i + 1]) = (c * p + s * q, c * q - s * p);
            rotations.push((c, s));
        }
        let share = self.shares.pop().unwrap_or(0.0);
        self.squared += share * share;
        let column = self.support.remove(place);
        self.weights.remove(place);
        self.barred[column] = false;
        self.change(Change::Leave { place, rotations, share }, gram);
    }

    /// R⁻¹Qᵀy into `solution`.
    fn solve(&mut self) {
        let size = self.len();
        let mut solution = std::mem::take(&mut self.solution);
        solution.clear();
        solution.resize(size, 0.0);
        solve_triangle(&self.triangle, self.capacity, &self.shares, &mut solution);
        self.solution = solution;
    }

    /// The inner loop of Lawson and Hanson, as in [`SupportFit`](crate::SupportFit). Whether a column left.
    fn reoptimise(&mut self, gram: &Gram) -> bool {
        let mut removed = false;
        loop {
            self.solve();
            let blocking = |(&w, &s): (&f64, &f64)| if s > 0.0 { f64::INFINITY } else { w / (w - s) };
            let step = self.weights.iter().zip(&self.solution).map(blocking).fold(f64::INFINITY, f64::min);
            if step == f64::INFINITY {
                self.weights.copy_from_slice(&self.solution);
                return removed;
            }
            // A weight and its solution both zero divide 0/0: it leaves without a step.
            let step = if step.is_finite() { step } else { 0.0 };
            let mut leaving = Vec::new();
            for (i, (w, &s)) in self.weights.iter_mut().zip(&self.solution).enumerate() {
                let blocks = s <= 0.0 && (*w <= 0.0 || *w / (*w - s) <= step);
                *w = if blocks { 0.0 } else { (*w + step * (s - *w)).max(0.0) };
                if blocks {
                    leaving.push(i);
                }
            }
            for place in leaving.into_iter().rev() {
                self.remove(place, gram);
            }
            removed = true;
        }
    }

    /// Takes the column at `place` out and solves.
    pub(super) fn leave(&mut self, place: usize, gram: &Gram) {
        self.remove(place, gram);
        self.reoptimise(gram);
    }

    /// Keeps only the columns at `places`, ascending, and solves.
    pub(super) fn retain(&mut self, places: &[usize], gram: &mut Gram) {
        let (size, kept) = (self.len(), places.len());
        // Rotating out costs about gone·size/2 coefficients a column of the pool, starting afresh kept²/2.
        if 2 * (size - kept) * size < kept * kept {
            self.panel.get_or_insert_with(Tiles::default);
            for place in (0..size).rev().filter(|place| places.binary_search(place).is_err()) {
                self.remove(place, gram);
            }
            self.bring_up_to_date(gram);
            self.reoptimise(gram);
        } else {
            let support: Vec<usize> = places.iter().map(|&place| self.support[place]).collect();
            let weights: Vec<f64> = places.iter().map(|&place| self.weights[place]).collect();
            let target = self.squared + dot(&self.shares, &self.shares);
            *self = Self::start(gram, target.sqrt(), self.capacity, &support, &weights);
        }
    }

    /// The support of those columns, solved from feasible weights.
    pub(super) fn start(
        gram: &mut Gram,
        target_norm: f64,
        capacity: usize,
        support: &[usize],
        weights: &[f64],
    ) -> Self {
        let mut tableau = Self::new(gram, target_norm, capacity);
        gram.ask(support);
        let mut changes: Vec<Change> = Vec::with_capacity(support.len());
        for (&column, &weight) in support.iter().zip(weights) {
            let products = gram.row(column);
            let mut coefficients: Vec<f64> = Vec::with_capacity(changes.len());
            for change in &changes {
                if let Change::Enter { column, coefficients: others, height, .. } = change {
                    coefficients.push((products[*column] - dot(others, &coefficients)) / height);
                }
            }
            let correlation = gram.with_target()[column] - dot(&coefficients, &tableau.shares);
            if let Some(change) = tableau.append(column, coefficients, correlation) {
                changes.push(change);
                tableau.weights.pop();
                tableau.weights.push(weight);
            }
        }
        tableau.pool.apply(&changes, gram);
        tableau.unbar();
        tableau.reoptimise(gram);
        tableau
    }

    /// Sheds the rounding that inner products bring: one step of refinement of the weights with the residual of the columns
    /// themselves, which is returned, and the correlations with it.
    pub(super) fn settle(&mut self, target: &[f64], gram: &Gram) -> Vec<f64> {
        self.bring_up_to_date(gram);
        let residual = |tableau: &Self| {
            let mut residual = target.to_vec();
            tableau
                .support
                .iter()
                .zip(&tableau.weights)
                .for_each(|(&at, w)| axpy(-w, gram.column(at), &mut residual));
            residual
        };
        let first = residual(self);
        let gradient: Vec<f64> = self.support.iter().map(|&at| dot(gram.column(at), &first)).collect();
        let step = self.solve_normal(gradient);
        if self.weights.iter().zip(&step).all(|(w, step)| w + step > 0.0) {
            self.weights.iter_mut().zip(&step).for_each(|(w, step)| *w += step);
        }
        let residual = residual(self);
        let mut correlations = Vec::new();
        gram.correlate(&residual, &mut correlations);
        self.pool.set_correlations(&correlations);
        self.squared = norm(&residual).powi(2);
        residual
    }

    /// (RᵀR)⁻¹v.
    fn solve_normal(&self, mut v: Vec<f64>) -> Vec<f64> {
        for i in 0..v.len() {
            let row = self.row(i);
            v[i] /= row[0];
            let (head, tail) = v.split_at_mut(i + 1);
            axpy(-head[i], &row[1..], tail);
        }
        for i in (0..v.len()).rev() {
            let row = self.row(i);
            v[i] = (v[i] - dot(&row[1..], &v[i + 1..])) / row[0];
        }
        v
    }

    /// The exchanges of one column of the support for one outside that would lower ‖r‖² by more than `least` if no
    /// weight turned negative, the best for each column outside, best first: the columns that leave and enter.
    pub(super) fn exchanges(&mut self, least: f64, gram: &Gram) -> Vec<(usize, usize)> {
        self.bring_up_to_date(gram);
        let (duals, shares) = self.elimination().unit_duals();
        let best = self.pool.exchanges(&duals, &shares, LEAST_HEIGHT);
        let mut swaps: Vec<(f64, usize, usize)> = best
            .into_iter()
            .take(gram.len())
            .enumerate()
            .filter(|&(column, (fall, _))| fall > least && !self.support.contains(&column))
            .map(|(column, (fall, place))| (fall, self.support[place], column))
            .collect();
        swaps.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.2.cmp(&b.2)));
        swaps.into_iter().map(|(_, leaves, enters)| (leaves, enters)).collect()
    }
}
