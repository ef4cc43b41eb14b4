import { join } from 'node:path';
import { projectRoot } from '../project-root.js';

/** Pages of the documentation that show what runs have measured. */
export const pagesWithFigures: readonly string[] = ['docs/reliability.md'].map((page) =>
  join(projectRoot, page),
);
