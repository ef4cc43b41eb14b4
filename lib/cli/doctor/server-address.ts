import { IdempotencyOptionsError } from '../../core/util/errors.js';

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
    this.host = parsed.hostname;
    this.port = parsed.port === '' ? defaultPort : Number(parsed.port);
    this.username = decode(parsed.username);
    this.password = decode(parsed.password);
    this.database = decode(parsed.pathname.slice(1));
    this.isEncrypted = parsed.protocol === 'rediss:';
    const { username, password } = this;
    this.secrets = [username, password, parsed.username, parsed.password]
      .filter((secret) => secret !== '')
      .map((secret) => new RegExp(`(?<!\\w)${escaped(secret)}(?!\\w)`, 'g'));
  }

  get shown(): string {
    return `${this.host === '' ? 'a local socket' : this.host}:${this.port}`;
  }

  /** A text of the server, of a driver or of the store, in which a server may have named the user. */
  redact(text: string): string {
    return this.secrets.reduce((redacted, secret) => redacted.replace(secret, '***'), text);
  }
}

/** Does not repeat the text: it may contain a password. */
function parse(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  // Otherwise the host, which is shown, would be part of the password.
  if (url?.hash !== '' || (url.pathname + url.search).includes('@')) {
    throw new IdempotencyOptionsError(
      'The URL is invalid. Encode special characters of the user name and the password: # as %23, / as %2F, ? as %3F, @ as %40.',
    );
  }
  return url;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&');
}
