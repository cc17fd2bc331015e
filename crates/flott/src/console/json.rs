//! Events as JSON, one object a line. Fields are only ever added.

use super::Opening;
use crate::remote::millis;
use crate::run::{Ended, Report, Status};
use flott_checkpoint::{AttemptId, CheckpointId, Guarantee};
use flott_runtime::error::Result;
use flott_runtime::job_manager::JobEvent;
use serde_json::{Value, json};

pub(super) fn event(opening: &Opening, promised: Guarantee, event: &JobEvent, status: &Status) -> Value {
    match event {
        JobEvent::Started { attempt, .. } => begun(opening, promised, *attempt, status, None),
        JobEvent::Restored { attempt, checkpoint, .. } => begun(opening, promised, *attempt, status, Some(*checkpoint)),
        JobEvent::Completed { id, mode, duration, bytes, .. } => json!({
            "event": "checkpoint", "id": id, "status": "completed", "mode": mode,
            "duration_ms": millis(*duration), "bytes": bytes, "guarantee": promised,
        }),
        JobEvent::Changed { mode, interval } => json!({
            "event": "changed", "mode": mode, "interval_ms": interval.map(millis), "guarantee": promised,
        }),
        JobEvent::Aborted { id, reason } => {
            json!({"event": "checkpoint", "id": id, "status": "aborted", "reason": reason})
        }
        JobEvent::Restart { restarts, delay, error } => {
            json!({"event": "restart", "restarts": restarts, "delay_ms": millis(*delay), "error": error.to_string()})
        }
        JobEvent::Delayed(whereabouts) => {
            let mut event = json!({"event": "delayed"});
            if let (Some(fields), Ok(Value::Object(found))) =
                (event.as_object_mut(), serde_json::to_value(&**whereabouts))
            {
                fields.extend(found);
            }
            event
        }
        JobEvent::Warning(message) => json!({"event": "warning", "message": message}),
        JobEvent::Progress { records_in, records_out } => {
            json!({
                "event": "progress", "records_in": records_in, "records_out": records_out,
                "skipped": status.skipped, "dead_letters": status.dead_letters,
            })
        }
    }
}

fn begun(
    opening: &Opening,
    promised: Guarantee,
    attempt: AttemptId,
    status: &Status,
    restored: Option<CheckpointId>,
) -> Value {
    let checkpoints = opening.checkpoint_dir.as_ref().map(|directory| {
        let mode = status.checkpoint_mode.unwrap_or(opening.mode);
        let interval = status.checkpoint_interval.unwrap_or(opening.interval);
        json!({"dir": directory, "mode": mode, "interval_ms": millis(interval)})
    });
    let mut event = json!({
        "event": if restored.is_some() { "restored" } else { "started" },
        "job": opening.job, "attempt": attempt, "try": status.restarts + 1, "workers": status.workers,
        "guarantee": promised, "checkpoints": checkpoints, "socket": opening.socket,
    });
    if let (Some(checkpoint), Some(fields)) = (restored, event.as_object_mut()) {
        fields.insert("checkpoint".to_owned(), json!(checkpoint));
        if let Some(before) = status.rescaled_from {
            fields.insert("rescaled_from".to_owned(), json!(before));
        }
    }
    event
}

pub(super) fn end(result: &Result<Report>) -> Value {
    match result {
        Ok(report) => json!({
            "event": "finished", "ended": ended(report.ended), "checkpoint": report.checkpoint,
            "records_in": report.records_in, "records_out": report.records_out,
            "restarts": report.restarts, "skipped": report.skipped,
            "dead_letters": report.dead_letters, "ignored": report.ignored,
        }),
        Err(error) => json!({
            "event": "failed", "error": error.to_string(), "operator": error.operator(),
            "exit_code": error.kind().exit_code(),
        }),
    }
}

fn ended(ended: Ended) -> &'static str {
    match ended {
        Ended::Finished => "finished",
        Ended::FinishedBefore => "finished-before",
        Ended::Stopped => "stopped",
        Ended::Cancelled => "cancelled",
    }
}
