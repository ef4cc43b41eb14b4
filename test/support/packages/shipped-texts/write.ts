import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { documentationPages, withCode } from '../../docs/documented-blocks.js';
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
// These are about the tests, which no build needs: tests of their own check them.
if (!checks) {
  for (const page of documentationPages()) {
    const file = join(projectRoot, page);
    const text = readFileSync(file, 'utf8');
    const current = withCode(text, (path) => readFileSync(join(projectRoot, path), 'utf8'));
    if (current !== text) writeFileSync(file, current);
  }
}
