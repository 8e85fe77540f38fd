use serde_json::json;
use tidegate_local::{Admin, GroupInfo, TopicInfo};

use super::Failure;
use crate::cli::TopicsArgs;
use crate::console;
use crate::progress::grouped;

/// Shows the topics of a log file.
pub(super) fn topics(args: &TopicsArgs) -> Result<(), Failure> {
    let failed = |error: tidegate_local::LocalError| Failure::Failed(error.to_string());
    let mut admin = Admin::open(&args.db).map_err(failed)?;
    let topics = admin.topics().map_err(failed)?;
    let groups = admin.groups().map_err(failed)?;
    if args.json {
        console::result(json!({"topics": topics, "groups": groups}));
        return Ok(());
    }
    if topics.is_empty() {
        console::result(format_args!("{} has no topics yet", args.db.display()));
        return Ok(());
    }
    show(&["TOPIC", "PARTITIONS", "RECORDS", "BYTES"], topics.iter().map(topic_row).collect());
    if !groups.is_empty() {
        console::result("");
        let head = ["GROUP", "TOPIC", "MEMBERS", "COMMITTED", "LAG"];
        show(&head, groups.iter().map(group_row).collect());
    }
    Ok(())
}

fn topic_row(topic: &TopicInfo) -> Vec<String> {
    vec![
        topic.name.clone(),
        topic.partitions.len().to_string(),
        grouped(topic.records),
        grouped(topic.bytes),
    ]
}

fn group_row(group: &GroupInfo) -> Vec<String> {
    let live = group.members.iter().filter(|member| member.is_live).count();
    let committed = group.partitions.iter().filter_map(|partition| partition.committed).sum();
    vec![
        group.group.clone(),
        group.topic.clone(),
        live.to_string(),
        grouped(committed),
        grouped(group.lag),
    ]
}

/// A table: the first column and names to the left, numbers to the right.
fn show(head: &[&str], rows: Vec<Vec<String>>) {
    let is_number = |column: usize| head[column] != "TOPIC" && column > 0;
    let widths: Vec<_> = (0..head.len())
        .map(|column| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.chain([head[column].len()]).max().unwrap_or_default()
        })
        .collect();
    let head: Vec<_> = head.iter().map(|name| (*name).to_owned()).collect();
    for row in [head].iter().chain(&rows) {
        let cells: Vec<_> = row
            .iter()
            .enumerate()
            .map(|(column, cell)| {
                let width = widths[column];
                if is_number(column) {
                    format!("{cell:>width$}")
                } else {
                    format!("{cell:<width$}")
                }
            })
            .collect();
        console::result(cells.join("  ").trim_end());
    }
}
