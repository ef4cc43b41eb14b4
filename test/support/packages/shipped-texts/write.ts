import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { documentationPages, withCode } from '../../docs/documented-blocks.js';
import { lengthsOfGuides } from '../../docs/words.js';
import { projectRoot } from '../../project-root.js';
import { shippedTexts } from './shipped-texts.js';

// With --check it writes nothing and fails if a module is stale. With --words it only counts the words of the guides.
const checks = process.argv.includes('--check');
const counts = process.argv.includes('--words');
if (counts) {
  const lengths = lengthsOfGuides();
  for (const { page, words, paragraphs } of lengths) {
    console.log(
      `${String(words).padStart(6)}  ${page}, longest paragraph ${Math.max(...paragraphs)}`,
    );
  }
  const sum = lengths.reduce((all, { words }) => all + words, 0);
  console.log(`${String(sum).padStart(6)}  in ${lengths.length} guides, outside of code`);
}
for (const { path, source } of counts ? [] : shippedTexts()) {
  const file = join(projectRoot, path);
  if (!checks) writeFileSync(file, source);
  else if (readFileSync(file, 'utf8') !== source) {
    throw new Error(`${path} is stale: run npm run texts`);
  }
}
// These are about the tests, which no build needs: tests of their own check them.
if (!checks && !counts) {
  for (const page of documentationPages()) {
    const file = join(projectRoot, page);
    const text = readFileSync(file, 'utf8');
    const current = withCode(text, (path) => readFileSync(join(projectRoot, path), 'utf8'));
    if (current !== text) writeFileSync(file, current);
  }
}
