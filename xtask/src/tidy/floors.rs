//! The house: each crate has a floor and may depend only on lower ones (design section 2).

use crate::process::output;
use serde_json::Value;

/// Crates by floor. The roof is never shipped and may use everything.
const FLOORS: [(&str, u8); 11] = [
    ("flott-checkpoint", 0),
    ("flott-runtime", 1),
    ("flott-timely", 2),
    ("flott-rocksdb", 2),
    ("flott-kafka", 2),
    ("flott-postgres", 2),
    ("flott-parquet", 2),
    ("flott-cluster", 3),
    ("flott", 4),
    ("flott-cli", 5),
    ("xtask", 6),
];
const ROOF: u8 = 6;

fn floor(package: &str) -> u8 {
    FLOORS.iter().find(|(name, _)| *name == package).map_or(ROOF, |(_, floor)| *floor)
}

pub(super) fn check() -> Result<Vec<String>, String> {
    let text = output("cargo", &["metadata", "--no-deps", "--format-version", "1", "--locked"])?;
    let metadata: Value = serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))?;
    let packages = metadata.get("packages").and_then(Value::as_array).ok_or("cargo metadata lists no packages")?;
    let ours: Vec<&str> = packages.iter().filter_map(|package| package.get("name")?.as_str()).collect();
    let mut findings = Vec::new();
    for package in packages {
        let Some(name) = package.get("name").and_then(Value::as_str) else { continue };
        let dependencies = package.get("dependencies").and_then(Value::as_array).into_iter().flatten();
        for dependency in dependencies {
            // A dependency for tests may look anywhere but up to the roof.
            let is_dev = dependency.get("kind").and_then(Value::as_str) == Some("dev");
            let Some(other) = dependency.get("name").and_then(Value::as_str).filter(|other| ours.contains(other))
            else {
                continue;
            };
            let (own, lower) = (floor(name), floor(other));
            let allowed = own == ROOF || lower < own || (is_dev && other == name) || (is_dev && lower < ROOF);
            if !allowed {
                findings
                    .push(format!("{name} (floor {own}) depends on {other} (floor {lower}): imports go downward only"));
            }
        }
    }
    Ok(findings)
}
