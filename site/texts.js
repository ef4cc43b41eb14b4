import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ADDRESS } from './settings.js';

/**
 * For programs that read: each page as Markdown beside its HTML, and `llms.txt`, which lists them.
 *
 * @param {string[]} pages - files of `docs`.
 * @param {(file: string) => string} pageOf - where each stands in `outDir`.
 */
export function writeTexts({ title, description, docs, outDir, pages, pageOf }) {
  const list = pages.map((file) => {
    const page = pageOf(file);
    cpSync(join(docs, file), join(outDir, page));
    const [, heading] = /^# (.+)$/m.exec(readFileSync(join(docs, file), 'utf8'));
    return `- [${heading}](${ADDRESS}${page})\n`;
  });
  writeFileSync(join(outDir, 'llms.txt'), `# ${title}\n\n> ${description}\n\n${list.join('')}`);
}
