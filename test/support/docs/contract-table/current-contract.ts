import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../../project-root.js';
import { testNames } from './clause-names.js';
import { withClauseTable, type Evidence } from './contract-table.js';
import { notes } from './notes.js';

export const contractFile = join(projectRoot, 'docs/reference/contract.md');

export function currentEvidence(): Evidence {
  return {
    fromOutside: testNames('test/contract/clauses'),
    inProcess: testNames('test/e2e'),
    notes,
  };
}

/** docs/reference/contract.md as it should be. */
export function currentContract(): string {
  return withClauseTable(readFileSync(contractFile, 'utf8'), currentEvidence());
}
