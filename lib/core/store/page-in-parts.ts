import type { List, ListedRecord, RecordPage } from '../record/commands.js';
import { nodeClock } from '../util/clock.js';

/** What is read of a list at once: from where, and how much at most. */
export type PartOfList = Pick<List, 'cursor' | 'limit' | 'maxScanned'>;

/**
 * Reads a page of a list, part by part. All share the time of one command: from half of it on, the page ends with a cursor,
 * so that a busy server shortens pages and does not fail them.
 * @param recordsAtOnce - that a part looks at, as a rule: of the time of the command, a small part.
 */
export async function pageInParts(
  { cursor, limit, maxScanned, timeoutMs }: List,
  recordsAtOnce: number,
  read: (part: PartOfList) => Promise<RecordPage>,
  clock = nodeClock,
): Promise<RecordPage> {
  const endsAt = clock.now() + timeoutMs / 2;
  const records: ListedRecord[] = [];
  let scanned = 0;
  let next = cursor;
  do {
    const left = { limit: limit - records.length, maxScanned: maxScanned - scanned };
    const most = Math.min(recordsAtOnce, left.maxScanned);
    const part = await read({ cursor: next, limit: left.limit, maxScanned: most });
    records.push(...part.records);
    scanned += part.scanned;
    next = part.cursor;
  } while (
    next !== undefined &&
    records.length < limit &&
    scanned < maxScanned &&
    clock.now() < endsAt
  );
  return next === undefined ? { records, scanned } : { records, scanned, cursor: next };
}
