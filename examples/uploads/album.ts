import { Injectable } from '@nestjs/common';

@Injectable()
export class Album {
  readonly photos: string[] = [];

  add(title: string, size: number) {
    this.photos.push(title);
    return { number: this.photos.length, title, size };
  }
}
