import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  currentEvidence,
  EVIDENCE_PAGE,
  readProjectFile,
} from '../../docs/evidence/current-evidence.js';
import { projectRoot } from '../../project-root.js';
import { shippedTexts } from './shipped-texts.js';

// With --check it writes nothing and fails if a module is stale.
const checks = process.argv.includes('--check');
for (const { path, source } of shippedTexts()) {
  const file = join(projectRoot, path);
  if (!checks) writeFileSync(file, source);
  else if (readFileSync(file, 'utf8') !== source) {
    throw new Error(`${path} is stale: run npm run texts`);
  }
}
// It is about the tests, which no build needs: test/unit/evidence.test.ts checks it.
if (!checks) writeFileSync(join(projectRoot, EVIDENCE_PAGE), currentEvidence(readProjectFile));
