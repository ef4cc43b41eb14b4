import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { projectRoot } from '../support/project-root.js';
import { shippedTexts } from '../support/packages/shipped-texts/shipped-texts.js';
import { stalePages } from '../support/docs/problem-pages.js';

it.each(shippedTexts())('$path equals its source: npm run texts', ({ path, source }) => {
  expect(readFileSync(join(projectRoot, path), 'utf8')).toBe(source);
});

it('the pages about problems and their index are those of the table of rejections', () => {
  expect(stalePages()).toEqual([]);
});
