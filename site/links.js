import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * VitePress looks for the page of a link in Markdown; this looks for the page of each link, and for its heading.
 *
 * @param {string} folder - the built site.
 * @param {string} base - the path that it is published under.
 * @throws if a link leads to no page, or names a heading that its page does not have.
 */
export function checkLinks(folder, base) {
  const files = readdirSync(folder, { recursive: true }).filter((file) => file.endsWith('.html'));
  const pages = new Map(files.map((file) => [file, readFileSync(join(folder, file), 'utf8')]));
  const dead = [];
  for (const [file, text] of pages) {
    for (const [, path, anchor] of text.matchAll(/<a [^>]*?href="([^"#:]*)(?:#([^"]+))?"/g)) {
      // Other versions stand beside this one, and are checked by themselves.
      if (path !== '' && (!path.startsWith(base) || path.startsWith(`${base}v/`))) continue;
      const target =
        path === '' ? file : path.slice(base.length).replace(/(^|\/)$/, '$1index.html');
      const page = pages.get(target);
      const isThere =
        anchor === undefined || page?.includes(` id="${decodeURIComponent(anchor)}"`) === true;
      if (page === undefined || !isThere)
        dead.push(`${file}: ${target}${anchor ? `#${anchor}` : ''}`);
    }
  }
  if (dead.length > 0) throw new Error(`Links that lead nowhere:\n${dead.join('\n')}`);
}
