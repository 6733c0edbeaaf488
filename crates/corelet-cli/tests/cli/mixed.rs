//! Mixed models: groups with their random effects integrated out, chosen, certified, and their effects.

use std::fmt::Write as _;

use crate::common::{Place, stderr};

/// Numbers in (0, 1).
fn uniforms(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }
}

/// A standard normal number.
fn normal(uniform: &mut impl FnMut() -> f64) -> f64 {
    (-2.0 * uniform().ln()).sqrt() * (2.0 * std::f64::consts::PI * uniform()).cos()
}

/// `visits.csv` of 6 to 14 visits of each of so many customers, in no order: who bought depends on the price and on the customer
/// (sd 0.8), and so does the time spent, whose slope differs between customers too (sd 0.5).
fn place_with_visits(customers: usize) -> Place {
    let mut uniform = uniforms(7);
    let mut lines = Vec::new();
    for customer in 0..customers {
        let (intercept, slope) = (0.8 * normal(&mut uniform), 0.5 * normal(&mut uniform));
        for _ in 0..6 + (8.0 * uniform()) as usize {
            let price = 10.0 + 2.0 * normal(&mut uniform);
            let eta = -0.5 - 0.3 * (price - 10.0) + intercept;
            let bought = u8::from(uniform() < 1.0 / (1.0 + (-eta).exp()));
            let spent = eta + slope * (price - 10.0) + 0.7 * normal(&mut uniform);
            lines.push((uniform(), format!("{price},{bought},{spent},c{customer}")));
        }
    }
    lines.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut text = "price,bought,spent,customer\n".to_owned();
    lines.iter().for_each(|(_, line)| writeln!(text, "{line}").unwrap());
    let place = Place::new();
    place.write("visits.csv", text);
    place
}

fn parameter<'a>(summary: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    let parameters = summary["parameters"].as_array().unwrap();
    parameters.iter().find(|p| p["name"] == name).unwrap_or_else(|| panic!("{name}: {parameters:?}"))
}

#[test]
fn a_few_customers_stand_for_all() {
    let place = place_with_visits(300);
    let flags = "visits.csv --target bought --features price --random customer --draws 500";
    let shown = place.succeed(&format!(
        "fit {flags} -k 40 -o draws.csv --coreset core.csv --json few.json --random-effects effects.csv --arviz few.arviz.json"
    ));
    assert!(shown.contains("A - ") && shown.contains("1|customer_sigma"), "{shown}");
    place.succeed(&format!("fit {flags} -k 300 -o all.csv --json all.json"));
    let (few, all) = (place.json("few.json"), place.json("all.json"));
    assert!(few["groups_chosen"].as_u64().unwrap() <= 40 && all["groups_chosen"] == 300);
    assert!(few["quadrature"]["bias"].as_f64().unwrap() < 0.1, "{}", few["quadrature"]);
    for name in ["price", "(intercept)", "1|customer_sigma"] {
        let (a, b) = (parameter(&few, name), parameter(&all, name));
        let number = |p: &serde_json::Value, key: &str| p[key].as_f64().unwrap();
        let sd = number(b, "sd");
        assert!((number(a, "mean") - number(b, "mean")).abs() < 0.2 * sd, "{name}: {a} {b}");
        assert!((number(a, "sd") / sd - 1.0).abs() < 0.15, "{name}: {a} {b}");
    }
    let sigma = parameter(&all, "1|customer_sigma");
    let off = (sigma["mean"].as_f64().unwrap() - 0.8) / sigma["sd"].as_f64().unwrap();
    assert!(off.abs() < 4.0, "{sigma}");
    let effects = place.read("effects.csv");
    assert_eq!(effects.lines().count(), 301);
    assert_eq!(effects.lines().next(), Some("customer,effect,rows,mean,sd,q5,median,q95"));
    // Whole customers, each with one weight, which is not called a weight of rows.
    let core = place.read("core.csv");
    assert!(core.starts_with("row,group_weight,price"), "{core}");

    place.succeed(&format!("fit {flags} -k 40 -o again.csv --coreset again_core.csv --threads 1"));
    assert_eq!((place.read("again.csv"), place.read("again_core.csv")), (place.read("draws.csv"), core));
}

#[test]
fn slopes_are_those_of_the_data() {
    let place = place_with_visits(150);
    let flags = "visits.csv --target spent --model linear --features price --draws 400 -o draws.csv --json fit.json -k 150";
    let random = |text: &str| {
        let output = place.command(&format!("fit {flags} --random")).arg(text).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        place.json("fit.json")
    };
    let both = random("customer: 1 + price");
    let close = |name: &str, want: f64| {
        let found = parameter(&both, name);
        let off = (found["mean"].as_f64().unwrap() - want) / found["sd"].as_f64().unwrap();
        assert!(off.abs() < 4.0, "{found}");
    };
    // An effect at price 0 is one at the mean price, and ten times the slope back.
    close("price|customer_sigma", 0.5);
    close("1|customer_sigma", (0.8_f64.powi(2) + 5.0_f64.powi(2)).sqrt());
    close("customer_corr", -5.0 / (0.8_f64.powi(2) + 5.0_f64.powi(2)).sqrt());
    let alone = random("0 + price || customer");
    assert_eq!(alone["random"], "0 + price | customer");
    assert_eq!(both["quadrature"]["nodes"], 3);
}

#[test]
fn what_random_effects_cannot_be_is_refused_in_a_line() {
    let place = place_with_visits(20);
    let mut text = String::new();
    for (i, line) in place.read("visits.csv").lines().enumerate() {
        let more = match i {
            0 => "id,one,level,gap".to_owned(),
            _ => {
                let customer = line.rsplit_once(",c").unwrap().1;
                format!(
                    "{i},same,{}.5,{}",
                    customer,
                    if i == 3 { String::new() } else { format!("g{}", i % 5) }
                )
            }
        };
        writeln!(text, "{line},{more}").unwrap();
    }
    place.write("more.csv", text);
    let base =
        ["fit", "more.csv", "--target", "bought", "--features", "price,level", "-o", "d.csv", "-k", "5"];
    for (flags, why) in [
        (&["--random", "nobody"][..], "nobody"),
        (&["--random", "one"], "one group only"),
        (&["--random", "id"], "another value in each of"),
        (&["--random", "gap"], "1 in 'gap'"),
        (&["--random", "bought"], "'bought' is the target"),
        (&["--random", "customer: 1 + level"], "the same in all rows of every group"),
        (&["--random", "customer: 1 + size"], "needs a feature of that name"),
        (&["--random", "customer: 1 + price + level"], "at most 2"),
        (&["--random", "customer", "--groups", "gap"], "do not go together"),
        (&["--random", "customer", "--collapse"], "do not go together"),
        (&["--random", "customer", "--max-kl", "0.1"], "do not go together"),
        (&["--random", "customer", "--lkj", "2"], "has none"),
        (&["--random", "customer", "--sd-prior", "cauchy(1)"], "half_normal(scale)"),
        (&["--sd-prior", "exponential(1)"], "--sd-prior needs --random"),
        (
            &["--random", "customer", "--standardise", "whiten", "--random-effects", "more.csv"],
            "overwrite an input",
        ),
        (&["--random", "customer", "--model", "softmax"], "takes no random effects"),
        (&["--random", "customer", "--random", "one"], "one group only"),
        (&["--random", "(1 | customer) + (1 + price | level)"], "the group"),
        (&["--random", "customer", "--random", "customer"], "stand in several terms"),
        (&["--random", "1 | customer/id"], "another value in each of"),
        (&["--random", "(1 | customer) + 1 | gap"], "outside of brackets"),
        (&["--random", "customer", "--stan", "model.json"], "another name"),
        (&["--stan", "model.stan"], "--random"),
    ] {
        let output = place.command("").args(base).args(flags).output().unwrap();
        let said = stderr(&output);
        assert!(!output.status.success() && said.contains(why), "{flags:?}: {said}");
        assert!(!said.contains("panicked") && !place.exists("d.csv"), "{flags:?}: {said}");
    }
}

/// `visits.csv` with a shop for each visit, of which there are five, two of them far from the others.
fn place_with_shops(customers: usize) -> Place {
    let place = place_with_visits(customers);
    let mut uniform = uniforms(11);
    let mut text = String::new();
    for (i, line) in place.read("visits.csv").lines().enumerate() {
        let shop = (5.0 * uniform()) as usize;
        let mut cells: Vec<String> = line.split(',').map(str::to_owned).collect();
        if i > 0 && shop > 2 {
            cells[1] = u8::from(uniform() < if shop == 3 { 0.9 } else { 0.1 }).to_string();
        }
        cells.push(if i == 0 { "shop".to_owned() } else { format!("s{shop}") });
        writeln!(text, "{}", cells.join(",")).unwrap();
    }
    place.write("visits.csv", text);
    place
}

#[test]
fn two_factors_are_fitted_predicted_reported_and_handed_on() {
    let place = place_with_shops(80);
    let shown = place.run(
        "fit visits.csv --target bought --features price --random customer --random shop --draws 400 -k 30 -o d.parquet --coreset core.parquet \
         --json s.json --report report.html --stan model.stan",
    );
    assert!(matches!(shown.status.code(), Some(0 | 3)), "{}", stderr(&shown));
    let summary = place.json("s.json");
    assert_eq!(summary["random"], "(1 | customer) + (1 | shop)");
    let of = |name: &str| parameter(&summary, name)["mean"].as_f64().unwrap();
    assert!(of("1|shop[s3]") > 1.0 && of("1|shop[s4]") < -1.0 && of("1|shop_sigma") > 0.5, "{summary}");
    let report = place.read("report.html");
    assert!(
        report.contains("Variance components")
            && report.contains("The effect 1 of")
            && report.contains("1 of shop")
    );
    assert!(!report.contains("NaN"));
    let (program, data) = (place.read("model.stan"), place.json("model.json"));
    assert!(program.contains("log_sum_exp") && program.contains("level1"), "{program}");
    assert_eq!(data["G"], summary["groups_chosen"]);

    place.write("new.csv", "price,customer,shop\n10,c1,s3\n10,c2,s4\n10,nobody,s3\n");
    let refused = place.run("predict core.parquet new.csv --data visits.csv -o p.csv");
    assert!(!refused.status.success() && !place.exists("p.csv"));
    let said = stderr(&refused);
    assert!(said.contains("row 2: 'nobody' in 'customer'") && said.contains("--unseen-groups"), "{said}");
    let means = |flags: &str| -> Vec<f64> {
        place.succeed(&format!("predict core.parquet new.csv {flags} -o p.csv"));
        let text = place.read("p.csv");
        text.lines().skip(1).map(|line| line.split(',').nth(1).unwrap().parse().unwrap()).collect()
    };
    let own = means("--data visits.csv --unseen-groups new");
    assert!(own[0] > 0.7 && own[1] < 0.3 && own[2] > 0.7, "{own:?}");
    let population = means("--effects population");
    assert!(
        population.iter().all(|p| *p == population[0]) && population[0] < 0.7 && population[0] > 0.2,
        "{population:?}"
    );
    assert_eq!(means("--data visits.csv --unseen-groups new --threads 1"), own);
    // A coreset of rows has no groups to speak of.
    place.succeed("build visits.csv --target bought --features price -k 30 -o rows.parquet");
    let refused = stderr(&place.run("predict rows.parquet new.csv --effects new -o q.csv"));
    assert!(refused.contains("--effects is for a coreset of whole groups"), "{refused}");
    let refused = stderr(
        &place.run("sample visits.csv --target bought --features price --coreset core.parquet -o q.parquet"),
    );
    assert!(refused.contains("weight"), "{refused}");
}
