import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import { hostAndPort } from '../../core/util/host-and-port.js';

export function isPostgres(url: string): boolean {
  return /^\s*postgres(?:ql)?:/i.test(url);
}

export function isMysql(url: string): boolean {
  return /^\s*(?:mysql|mariadb):/i.test(url);
}

export function isRedis(url: string): boolean {
  return /^\s*rediss?:/i.test(url);
}

/** The address of a server, without the user and the password of its URL. */
export class ServerAddress {
  readonly host: string;
  readonly port: number;
  readonly username: string;
  readonly password: string;
  /** Path of the URL, without the slash: the database. */
  readonly database: string;
  readonly isEncrypted: boolean;
  private readonly secrets: readonly RegExp[];

  /** @throws {@link IdempotencyOptionsError} when it is not a URL. */
  constructor(url: string, defaultPort: number) {
    const parsed = parse(url);
    // Brackets of IPv6 belong to the URL.
    this.host = parsed.hostname.replace(/^\[(.*)\]$/, '$1');
    this.port = parsed.port === '' ? defaultPort : Number(parsed.port);
    this.username = decode(parsed.username);
    this.password = decode(parsed.password);
    this.database = decode(parsed.pathname.slice(1));
    this.isEncrypted = parsed.protocol === 'rediss:';
    const inQuery = [...parsed.searchParams].filter(([name]) => /pass/i.test(name));
    const passwords = [this.password, parsed.password, ...inQuery.map(([, value]) => value)];
    const written = passwords.flatMap((password) => [password, encodeURIComponent(password)]);
    this.secrets = [...new Set(written)].filter((secret) => secret !== '').map(patternOf);
  }

  get shown(): string {
    return hostAndPort(this.host, this.port);
  }

  /** A text of the server, of a driver or of the store, in which the password may occur. */
  redact(text: string): string {
    return this.secrets.reduce((redacted, secret) => redacted.replace(secret, '***'), text);
  }
}

/** Does not repeat the text: it may contain a password. */
function parse(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  // Otherwise the host, which is shown, would be part of the password.
  const isShowable = url?.hash === '' && !(url.pathname + url.search).includes('@');
  if (!isShowable || !WITH_SCHEME.test(text)) {
    throw new IdempotencyOptionsError(`The URL is invalid. ${flawOf(text)}`);
  }
  return url;
}

const WITH_SCHEME = /^\s*[a-z][a-z\d+.-]*:\/\/([^/?#]*)([/?#].*)?$/is;
const NO_URL =
  'Write it as postgres://user:password@host:port/database, or redis://user:password@host:port/0.';
const ENCODE =
  'Encode special characters of the user name and the password: % as %25, # as %23, / as %2F, ? as %3F, @ as %40.';

function flawOf(text: string): string {
  const [isUrl, authority = '', rest = ''] = WITH_SCHEME.exec(text) ?? [];
  if (isUrl === undefined) return NO_URL;
  if (rest.includes('@')) return ENCODE;
  const server = authority.slice(authority.lastIndexOf('@') + 1);
  if (/\s/.test(server)) return 'The host contains a space.';
  const port = /:([^:\]]+)$/.exec(server)?.[1] ?? '0';
  return /^\d{1,5}$/.test(port) && Number(port) < 65_536
    ? ENCODE
    : 'The port must be a number from 0 to 65535.';
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** What is a word, a number or short occurs in the doctor's own texts: there it is no secret, and `***` would tell it. */
const ORDINARY = /^(?:.{1,3}|[A-Za-z]{1,15}|[\d.]{1,15})$/s;

function patternOf(secret: string): RegExp {
  const text = escaped(secret);
  if (ORDINARY.test(secret)) {
    // Only where it stands as a value.
    return new RegExp(
      `(?<=:)${text}(?=@)|(?<=(["'\`]))${text}(?=\\1)|(?<==)${text}(?![^\\s,;&])`,
      'g',
    );
  }
  const before = /^\w/.test(secret) ? '(?<!\\w)' : '';
  const after = /\w$/.test(secret) ? '(?!\\w)' : '';
  return new RegExp(before + text + after, 'g');
}

function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&');
}
