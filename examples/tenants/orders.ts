import { Injectable } from '@nestjs/common';

export interface Order {
  readonly item: string;
}

/** The orders of all tenants: what was executed. */
@Injectable()
export class Orders {
  readonly placed: string[] = [];

  place(tenant: string | undefined, { item }: Order) {
    this.placed.push(`${tenant ?? 'none'}: ${item}`);
    return { tenant, item, number: this.placed.length };
  }
}
