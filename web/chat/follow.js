/**
 * follow: keeps the newest text in view while it streams, until the user scrolls up; then shows a button that scrolls
 * to the end.
 * @module
 */

/** Distance from the end within which text is followed, in CSS pixels. */
const NEAR = 48;

/** Controls the scroll position of one element. */
export class Follow {
  #scroller;
  #button;
  #on = true;
  #hasLatest = true;
  #last = 0;

  /** @param {HTMLElement} scroller @param {HTMLElement} latest   button that is shown while the end is out of sight */
  constructor(scroller, latest) {
    this.#scroller = scroller;
    this.#button = latest;
    scroller.addEventListener('scroll', () => this.#scrolled(), { passive: true });
    latest.addEventListener('click', () => {
      this.toEnd();
      scroller.focus({ preventScroll: true });
    });
    new ResizeObserver(() => this.keep()).observe(scroller);
  }

  #distance() {
    const s = this.#scroller;
    return s.scrollHeight - s.scrollTop - s.clientHeight;
  }

  /** Returns whether the user has scrolled up, even by a pixel. The browser also scrolls up when the text gets
   * shorter, but then the old position no longer exists. */
  #wentUp() {
    const { scrollTop, scrollHeight, clientHeight } = this.#scroller;
    return scrollTop < this.#last && this.#last <= scrollHeight - clientHeight + 1 && this.#distance() > 1;
  }

  #scrolled() {
    const top = this.#scroller.scrollTop;
    if (this.#wentUp()) this.#on = false;
    else if (top > this.#last && this.#distance() <= NEAR) this.#on = true;
    this.#last = top;
    this.#show();
  }

  #show() {
    this.#button.hidden = this.#on || !this.#hasLatest || this.#distance() <= 1;
  }

  /** Follows the text after the content has changed. Detects scrolling whose event has not arrived yet. */
  update() {
    if (this.#wentUp()) this.#on = false;
    this.keep();
  }

  /** Restores the scroll position after the element's height has changed, because browsers may scroll by themselves. */
  keep() {
    if (this.#on) this.#scroller.scrollTop = this.#scroller.scrollHeight;
    this.#last = this.#scroller.scrollTop;
    this.#show();
  }

  /** Changes an element without moving the text below it on the screen. @param {HTMLElement} element
   * @param {() => void} change */
  steady(element, change) {
    const { offsetHeight } = element;
    const above = element.offsetTop < this.#scroller.scrollTop;
    change();
    if (this.#on || !above) return this.keep();
    this.#scroller.scrollTop += element.offsetHeight - offsetHeight;
    this.#last = this.#scroller.scrollTop;
  }

  /** Scrolls to the start of an empty conversation, which has no end to follow. */
  toStart() {
    this.#on = this.#hasLatest = false;
    this.#scroller.scrollTop = this.#last = 0;
    this.#show();
  }

  /** Scrolls to the end, and follows the text from now on. */
  toEnd() {
    this.#on = this.#hasLatest = true;
    this.keep();
  }
}
