// Pages opened from a disk (file://) may not start a Worker, so the search would not run. Its script runs in a hidden
// iframe instead: `postMessage` goes both ways as a Worker's would. On a server nothing is replaced.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.onmessage = null;
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame);
      const inside = (this.inside = frame.contentWindow);
      inside.postMessage = (data) => this.receive(data);
      const script = inside.document.createElement("script");
      script.src = new URL(address, location.href).href;
      script.onload = () => {
        const held = this.waiting;
        this.waiting = null;
        held.forEach((data) => this.deliver(data));
      };
      inside.document.documentElement.append(script);
      this.frame = frame;
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.deliver(data);
    }

    deliver(data) {
      this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }));
    }

    receive(data) {
      const event = new MessageEvent("message", { data });
      setTimeout(() => {
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      });
    }

    terminate() {
      this.frame.remove();
    }
  };
}
