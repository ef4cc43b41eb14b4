import { parseArgs } from 'node:util';
import { oneOf, wholeNumber } from '../command-line.js';
import { contenders, type ContenderId } from './http/contenders.js';
import { NODES } from './node.js';
import type { Part, PartContext } from './parts/part.js';

export interface BenchPlan extends Omit<PartContext, 'library' | 'onProgress'> {
  readonly parts: readonly Part[];
  /** The version of Node that all parts run on, but for the one that compares them. */
  readonly node: string;
  /** Whether the documentation is to show what is measured. */
  readonly isKept: boolean;
  /** A folder with a built library, instead of what lies in the checkout. */
  readonly library: string | undefined;
}

export const USAGE = `npm run lab -- bench [--budget | --quick] [--only PART[,PART]] [--rounds N] [--contenders NAME[,NAME]]
                     [--node MAJOR] [--no-report] [--library DIR]

  --budget      only what the verdicts of the budget rest on
  --quick       the same in three rounds, to see that all works
  --only        some parts: store, sealing, http, counts, contention, growth, startup, size, postgres, mysql, sqlite,
                clients, nodes
  --rounds      how often each is measured
  --contenders  some applications of the part http: ${Object.keys(contenders).join(', ')}
  --node        of ${NODES.join(', ')} (default ${NODES[0]})
  --no-report   leaves docs as they are; implied by --budget, --quick, --contenders and another Node
  --library     a built library instead of this checkout's sources`;

/** @throws an Error that says what is wrong with them. */
export function planOf(args: readonly string[], parts: readonly Part[]): BenchPlan {
  const { values } = parseArgs({
    args: [...args],
    allowNegative: true,
    options: {
      budget: { type: 'boolean', default: false },
      quick: { type: 'boolean', default: false },
      only: { type: 'string' },
      rounds: { type: 'string' },
      contenders: { type: 'string' },
      node: { type: 'string', default: NODES[0] },
      report: { type: 'boolean' },
      library: { type: 'string' },
    },
  });
  const { budget, quick, only, report, library } = values;
  const isJudgedOnly = budget || quick;
  const names = values.contenders?.split(',');
  const ids = names?.map((name) =>
    oneOf('contenders', name, Object.keys(contenders) as ContenderId[]),
  );
  const rounds =
    values.rounds === undefined ? undefined : wholeNumber('rounds', values.rounds, 1, 1);
  return {
    parts:
      only === undefined
        ? parts.filter(({ isJudged }) => !isJudgedOnly || isJudged === true)
        : partsNamed(only.split(','), parts),
    profile: quick ? 'quick' : 'default',
    rounds,
    isJudgedOnly,
    contenders: ids,
    node: oneOf('node', values.node, NODES),
    isKept: report ?? (!isJudgedOnly && ids === undefined && values.node === NODES[0]),
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
