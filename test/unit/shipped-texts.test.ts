import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { projectRoot } from '../support/project-root.js';
import { shippedTexts } from '../support/packages/shipped-texts/shipped-texts.js';

it.each(shippedTexts())('$path equals its source: npm run texts', ({ path, source }) => {
  expect(readFileSync(join(projectRoot, path), 'utf8')).toBe(source);
});
