import { nodeOf } from '../bench/node.js';
import type { Row } from '../../test/support/docs/figures/report.js';
import { inParallel, simulateApart } from './apart.js';

/** The oldest version of Node that the package runs on, and those that are maintained. */
const MAJORS = ['20', '22', '24'];

const SEEDS = 10;

/** How much of a digest a table shows. */
const SHOWN = 16;

interface Comparison {
  /** The digest of the history, by seed and version. */
  readonly rows: readonly Row[];
  /** Seeds with different histories, or with an objection. */
  readonly different: readonly string[];
}

/** Runs the same seeds on several versions of Node, and compares their histories. */
export async function compareNodes(
  seed: number,
  requests: number,
  atOnce: number,
): Promise<Comparison> {
  const nodes = new Map<string, string>();
  for (const major of MAJORS) nodes.set(major, await nodeOf(major));
  const seeds = Array.from({ length: SEEDS }, (_, index) => seed + index);
  const rows = await inParallel(seeds, atOnce, async (each) => {
    const row: Record<string, string | number> = { seed: String(each), requests: 0 };
    for (const [major, execPath] of nodes) {
      const ended = await simulateApart(execPath, each, requests);
      const isFailed = typeof ended === 'string';
      if (!isFailed) row.requests = ended.requests;
      row[`Node ${major}`] = isFailed ? 'objection' : ended.digest.slice(0, SHOWN);
    }
    return row;
  });
  const isSame = (row: Row) => {
    const digests = new Set(MAJORS.map((major) => row[`Node ${major}`]));
    return digests.size === 1 && !digests.has('objection');
  };
  return { rows, different: rows.filter((row) => !isSame(row)).map((row) => String(row.seed)) };
}
