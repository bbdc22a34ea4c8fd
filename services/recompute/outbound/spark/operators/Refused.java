package tidewire;

/** Not a plan for operators, or a state that does not fit: the template is evaluated whole. */
public final class Refused extends RuntimeException {
  public Refused(String reason) {
    super(reason);
  }
}
