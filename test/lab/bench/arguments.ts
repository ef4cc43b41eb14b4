import { parseArgs } from 'node:util';
import type { Part, Profile } from './parts/part.js';

export interface BenchPlan {
  readonly parts: readonly Part[];
  readonly profile: Profile;
  /** Whether the documentation is to show what is measured. */
  readonly isKept: boolean;
  /** A folder with a built library, instead of what lies in the checkout. */
  readonly library: string | undefined;
}

export const USAGE = `npm run lab -- bench [--quick | --full] [--only PART[,PART]] [--no-report] [--library DIR]

  --quick      two minutes, to see that all works: too short to be kept, unless --report says so
  --full       all combinations and versions of Node: hours
  --only       some parts: store, http, contention, memory, growth, startup, size, postgres, nodes
  --no-report  leaves docs/performance.md as it is
  --library    a built library instead of this checkout's sources`;

/** @throws an Error that says what is wrong with them. */
export function planOf(args: readonly string[], parts: readonly Part[]): BenchPlan {
  const { values } = parseArgs({
    args: [...args],
    allowNegative: true,
    options: {
      quick: { type: 'boolean', default: false },
      full: { type: 'boolean', default: false },
      only: { type: 'string' },
      report: { type: 'boolean' },
      library: { type: 'string' },
    },
  });
  const { quick, full, only, report, library } = values;
  if (quick && full) throw new Error('--quick and --full exclude each other');
  const profile = quick ? 'quick' : full ? 'full' : 'default';
  const chosen = only === undefined ? undefined : partsNamed(only.split(','), parts);
  return {
    parts: chosen ?? parts.filter(({ isOptional }) => full || isOptional !== true),
    profile,
    isKept: report ?? profile !== 'quick',
    library,
  };
}

function partsNamed(names: readonly string[], parts: readonly Part[]): Part[] {
  return names.map((name) => {
    const part = parts.find((candidate) => candidate.name === name);
    if (part === undefined) throw new Error(`unknown part "${name}"`);
    return part;
  });
}
