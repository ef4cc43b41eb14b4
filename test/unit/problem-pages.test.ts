import { expect, it } from '@jest/globals';
import { stalePages } from '../support/docs/problem-pages.js';

it('the pages about problems and their index are those of the table of rejections', () => {
  expect(stalePages()).toEqual([]);
});
