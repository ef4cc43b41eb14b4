import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../../project-root.js';
import { documentationPages } from '../documented-code.js';
import { withEvidence } from './evidence-page.js';
import { existing, type ReadFile } from './holdings.js';
import { promisesIn } from './promises.js';
import { PROMISES } from './promises-evidence.js';
import { SERVERS } from './servers-evidence.js';
import { SITUATIONS } from './situations-evidence.js';

export const EVIDENCE_PAGE = 'docs/explanation/evidence.md';

export const readProjectFile: ReadFile = (path) => {
  const file = join(projectRoot, path);
  return existsSync(file) ? readFileSync(file, 'utf8') : undefined;
};

/** docs/explanation/evidence.md as it should be. */
export function currentEvidence(read: ReadFile): string {
  const promises = pages().flatMap((path) => promisesIn({ path, text: existing(read, path) }));
  return withEvidence(
    existing(read, EVIDENCE_PAGE),
    promises,
    [...PROMISES, ...SITUATIONS, ...SERVERS],
    read,
  );
}

/** Pages that may promise: first those that a user reads first. */
function pages(): string[] {
  const first = [
    'README.md',
    'docs/explanation/guarantees.md',
    'docs/reference/situations.md',
    'docs/explanation/reliability.md',
  ];
  const others = documentationPages().filter((path) => !first.includes(path));
  return [...first, ...others.filter((path) => path !== EVIDENCE_PAGE)];
}
